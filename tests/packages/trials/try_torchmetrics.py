"""torchmetrics: classification, regression, images, text, retrieval, collections, state."""

import pickle

import torch
import torchmetrics as M
from torchmetrics import functional as F
from torchmetrics.classification import MulticlassCalibrationError, MultilabelF1Score
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure
from torchmetrics.text import BLEUScore, CharErrorRate, Perplexity, WordErrorRate

torch.manual_seed(0)
scores, labels = torch.randn(64, 5).softmax(1), torch.randint(0, 5, (64,))
many = M.MetricCollection(
    {
        name: getattr(M, name)(task="multiclass", num_classes=5)
        for name in (
            "Accuracy",
            "F1Score",
            "Precision",
            "Recall",
            "AUROC",
            "AveragePrecision",
            "CohenKappa",
            "ConfusionMatrix",
            "MatthewsCorrCoef",
            "JaccardIndex",
            "ROC",
            "Specificity",
        )
    }
)
for part in range(4):
    many.update(scores[part::4], labels[part::4])
found = many.compute()
whole = F.accuracy(scores, labels, task="multiclass", num_classes=5, average="macro")
by_hand = torch.stack(
    [(scores.argmax(1) == labels)[labels == c].float().mean() for c in range(5)]
).mean()
torch.testing.assert_close(whole, by_hand)
assert found["ConfusionMatrix"].sum() == 64 and 0 < found["AUROC"] < 1
again = pickle.loads(pickle.dumps(many))
assert torch.equal(again.compute()["ConfusionMatrix"], found["ConfusionMatrix"])
many.reset()
a, b = torch.randn(50), torch.randn(50)
for name in (
    "MeanSquaredError",
    "MeanAbsoluteError",
    "R2Score",
    "PearsonCorrCoef",
    "SpearmanCorrCoef",
    "ExplainedVariance",
    "CosineSimilarity",
    "KendallRankCorrCoef",
    "ConcordanceCorrCoef",
):
    metric = getattr(M, name)()
    metric.update(
        a.reshape(5, 10) if name == "CosineSimilarity" else a,
        b.reshape(5, 10) if name == "CosineSimilarity" else b,
    )
    assert metric.compute().isfinite()
x, y = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
assert StructuralSimilarityIndexMeasure(data_range=1.0)(x, x) > 0.999
assert PeakSignalNoiseRatio(data_range=1.0)(x, y) > 0
assert WordErrorRate()(["a b c"], ["a b d"]).isclose(torch.tensor(1 / 3))
assert CharErrorRate()(["abc"], ["abd"]) > 0 and BLEUScore()(["a b c d"], [["a b c d"]]) == 1
assert Perplexity()(torch.rand(2, 8, 5), torch.randint(0, 5, (2, 8))) > 1
M.RetrievalMAP()(
    torch.rand(6), torch.tensor([1, 0, 1, 0, 1, 1]), indexes=torch.tensor([0, 0, 0, 1, 1, 1])
)
MulticlassCalibrationError(5)(scores, labels), MultilabelF1Score(5)(scores, (scores > 0.2).int())
mean = M.MeanMetric()
mean(torch.tensor([1.0, 3.0]))
assert mean.compute() == 2 and (mean + 1).compute() == 3
assert M.BootStrapper(M.MeanSquaredError(), 4)(a, b)["mean"] > 0
print("ok")
