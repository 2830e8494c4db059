//! Negotiation of the format by the header `Accept` (MET-7).

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};

use crate::text;

/// A format of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The text format, for everybody who does not prefer protobuf.
    Text,
    /// The protobuf format, with an escaping scheme. All names of series are valid in each scheme.
    Protobuf(EscapingScheme),
}

/// A way to write names that old scrapers do not accept, and the content type with its name.
type EscapingScheme = (&'static str, &'static str);

macro_rules! scheme {
    ($name:literal) => {
        (
            $name,
            concat!(
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping=",
                $name
            ),
        )
    };
}

/// Escaping schemes of the Go libraries. The first is their default.
const ESCAPING_SCHEMES: [EscapingScheme; 4] = [
    scheme!("underscores"),
    scheme!("allow-utf-8"),
    scheme!("dots"),
    scheme!("values"),
];

impl Format {
    /// Returns the format that the client prefers among those that exist here. A client that accepts none of them gets
    /// the text format, as from the Go program.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let lists = headers
            .get_all(ACCEPT)
            .into_iter()
            .filter_map(|value| value.to_str().ok());
        let mut ranges: Vec<_> = lists
            .flat_map(|list| list.split(','))
            .map(MediaRange::of)
            .collect();
        ranges.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let mut scheme = ESCAPING_SCHEMES[0];
        for range in ranges.into_iter().filter(|range| range.weight > 0.0) {
            scheme = ESCAPING_SCHEMES
                .into_iter()
                .find(|escaping_scheme| escaping_scheme.0 == range.parameter("escaping"))
                .unwrap_or(scheme);
            if range.is_protobuf() {
                return Self::Protobuf(scheme);
            }
            if range.is_text() {
                break;
            }
        }
        Self::Text
    }

    /// Returns the value of the header `Content-Type`.
    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Text => text::CONTENT_TYPE,
            Self::Protobuf((_, content_type)) => content_type,
        })
    }
}

/// An element of the header: a media type with parameters and a weight.
struct MediaRange<'a> {
    name: &'a str,
    parameters: &'a str,
    weight: f32,
}

impl<'a> MediaRange<'a> {
    fn of(element: &'a str) -> Self {
        let (name, parameters) = element.split_once(';').unwrap_or((element, ""));
        let range = Self {
            name: name.trim(),
            parameters,
            weight: 1.0,
        };
        match range.parameter("q") {
            "" => range,
            weight => Self {
                weight: weight.parse().unwrap_or(0.0),
                ..range
            },
        }
    }

    /// Returns the value of a parameter; empty if there is none.
    fn parameter(&self, wanted: &str) -> &'a str {
        let pairs = self
            .parameters
            .split(';')
            .filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
        values
            .next()
            .map_or("", |(_, value)| value.trim().trim_matches('"'))
    }

    fn is_protobuf(&self) -> bool {
        self.name
            .eq_ignore_ascii_case("application/vnd.google.protobuf")
            && self.parameter("proto") == "io.prometheus.client.MetricFamily"
            && self.parameter("encoding") == "delimited"
    }

    fn is_text(&self) -> bool {
        self.name.eq_ignore_ascii_case("text/plain")
            && ["", "0.0.4"].contains(&self.parameter("version"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(values: &[&str]) -> Format {
        let header = |value: &&str| (ACCEPT, HeaderValue::from_str(value).unwrap());
        Format::accepted(&values.iter().map(header).collect())
    }

    #[test]
    fn scraper_that_prefers_protobuf_gets_it() {
        const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let underscores = Format::Protobuf(ESCAPING_SCHEMES[0]);
        let table = [
            // Prometheus 2.42, 2.53, 3.0 and 3.9 with native histograms.
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                 application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                underscores,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.5,\
                 application/openmetrics-text;version=1.0.0;q=0.4,application/openmetrics-text;version=0.0.1;q=0.3,\
                 text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                underscores,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;\
                 escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                 application/openmetrics-text;version=0.0.1;escaping=allow-utf-8;q=0.3,\
                 text/plain;version=0.0.4;escaping=allow-utf-8;q=0.2,*/*;q=0.1",
                Format::Protobuf(ESCAPING_SCHEMES[1]),
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                 application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                underscores,
            ),
            // Prometheus 2.53 and 3.9 without native histograms.
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::Text,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::Text,
            ),
            ("*/*", Format::Text),
            ("application/json", Format::Text),
            ("", Format::Text),
        ];
        for (header, expected) in table {
            assert_eq!(accepted(&[header]), expected, "{header}");
        }
        assert_eq!(accepted(&[]), Format::Text);
        assert_eq!(
            accepted(&["text/plain;q=0.2", PROTOBUF]),
            underscores,
            "two headers"
        );
        let weighted =
            |protobuf, text| accepted(&[&format!("{PROTOBUF};q={protobuf}, text/plain;q={text}")]);
        assert_eq!(weighted("0.3", "0.2"), underscores);
        assert_eq!(weighted("0.2", "0.3"), Format::Text);
        assert_eq!(weighted("0", "0"), Format::Text);
        assert_eq!(weighted("many", "0.1"), Format::Text);
        assert_eq!(
            accepted(&["text/plain;version=1.0.0,application/vnd.google.protobuf;q=0.5"]),
            Format::Text
        );
        assert_eq!(
            accepted(&[&PROTOBUF.replace("delimited", "text")]),
            Format::Text
        );
        assert_eq!(
            accepted(&[&PROTOBUF.replace(';', " ; ").replace("proto=", "PROTO=")]),
            underscores,
            "spaces"
        );
        assert_eq!(
            accepted(&[&format!("{PROTOBUF};escaping=unknown")]),
            underscores
        );
        assert_eq!(
            accepted(&[&format!("{PROTOBUF};escaping=dots")]),
            Format::Protobuf(ESCAPING_SCHEMES[2])
        );
    }

    #[test]
    fn content_type_names_the_escaping_scheme() {
        assert_eq!(
            Format::Text.content_type(),
            "text/plain; version=0.0.4; charset=utf-8"
        );
        assert_eq!(
            Format::Protobuf(ESCAPING_SCHEMES[2]).content_type(),
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping=dots"
        );
    }
}
