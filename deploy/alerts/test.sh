#!/usr/bin/env bash
# Evaluates the alerts on recorded series, with promtool: the one of CCM_PROMTOOL, of the PATH, or of Debian's package
# prometheus, which is unpacked into the cache directory; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${CCM_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ccm-rs}
unpacked=$cache/tools/prometheus/usr/bin/promtool
promtool=${CCM_PROMTOOL:-$(command -v promtool || echo "$unpacked")}
if [ ! -x "$promtool" ] && [ "$promtool" = "$unpacked" ]; then
    package=$(mktemp -d)
    trap 'rm -rf "$package"' EXIT
    (cd "$package" && apt-get download --quiet prometheus)
    mkdir -p "$cache/tools/prometheus"
    dpkg-deb --extract "$package"/prometheus_*.deb "$cache/tools/prometheus"
fi
CCM_PROMTOOL=$promtool cargo test --workspace --test alerts
