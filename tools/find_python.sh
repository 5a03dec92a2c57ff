#!/usr/bin/env bash
# Prints the path of a Python of a version (3.12) that runs: of PATH, pyenv, uv or the usual folders.
set -u
version=$1
candidates=("$(command -v "python$version")")
if command -v pyenv > /dev/null; then
  candidates+=("$(pyenv root)/versions/$version"*/bin/"python$version")
fi
if command -v uv > /dev/null; then
  candidates+=("$(uv python find "$version" 2> /dev/null)")
fi
candidates+=(/usr/bin/"python$version" /usr/local/bin/"python$version" /opt/*/bin/"python$version"
  "$HOME"/.pyenv/versions/"$version"*/bin/"python$version")
for candidate in "${candidates[@]}"; do
  # A shim may name a version that is not switched on.
  found=$("$candidate" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])' 2> /dev/null)
  if [ "$found" = "$version" ]; then
    printf '%s\n' "$candidate"
    exit 0
  fi
done
exit 1
