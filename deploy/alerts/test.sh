#!/usr/bin/env bash
# Evaluates the alerts on recorded series with promtool. Without a promtool in the PATH (or CCM_PROMTOOL) the one of Debian's
# package prometheus is unpacked into the cache directory; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${CCM_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ccm-rs}
if [ -z "${CCM_PROMTOOL:-}" ] && ! command -v promtool >/dev/null; then
    export CCM_PROMTOOL=$cache/tools/prometheus/usr/bin/promtool
    if [ ! -x "$CCM_PROMTOOL" ]; then
        package=$(mktemp -d)
        trap 'rm -rf "$package"' EXIT
        (cd "$package" && apt-get download --quiet prometheus && dpkg-deb --extract prometheus_*.deb "$cache/tools/prometheus")
    fi
fi
CI=true cargo test -p ccm-tests --test alerts
