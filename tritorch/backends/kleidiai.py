"""torch.backends.kleidiai: there is no KleidiAI here."""


def is_available() -> bool:
    """False."""
    return False
