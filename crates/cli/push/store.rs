//! What each kind of receiver wants, told by the path of its address.

use super::url::Url;
use super::waiting::Request;
use crate::percent::encoded;
use prof_export::{Choice, ExportFormat, export};
use prof_profile::Profile;
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// A receiver's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// Pyroscope's ingest: pprof in a form, labels in the query.
    Pyroscope,
    /// Parca's WriteRaw, as JSON: pprof in base64.
    Parca,
    /// OpenTelemetry's, protocol buffers.
    Otlp,
}

/// How paths of addresses end, and what is sent there.
const PROTOCOLS: [(&str, Protocol); 3] = [
    ("/ingest", Protocol::Pyroscope),
    ("/profiles/writeraw", Protocol::Parca),
    ("/v1development/profiles", Protocol::Otlp),
];

/// Where profiles go, and as what.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) url: Url,
    protocol: Protocol,
    /// What the profiled service is called.
    pub(crate) service: String,
    pub(crate) labels: Vec<(String, String)>,
}

impl Store {
    /// The receiver at an address.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(crate) fn new(
        url: &str,
        service: &str,
        labels: Vec<(String, String)>,
    ) -> Result<Self, String> {
        let url = Url::parse(url)?;
        let mut known = PROTOCOLS.iter();
        let found = known.find(|(end, _)| url.path.ends_with(end));
        let Some((_, protocol)) = found else {
            return Err(
                "its path does not tell what is sent there: /ingest (Pyroscope), \
                        /profiles/writeraw (Parca) or /v1development/profiles (OpenTelemetry)"
                    .into(),
            );
        };
        Ok(Self {
            url,
            protocol: *protocol,
            service: service.to_owned(),
            labels,
        })
    }

    /// A profile as it is sent there.
    ///
    /// # Errors
    /// If it has no samples.
    pub(crate) fn request(&self, profile: &Profile) -> anyhow::Result<Request> {
        let mut content = Vec::new();
        let format = match self.protocol {
            Protocol::Pyroscope | Protocol::Parca => ExportFormat::Pprof,
            Protocol::Otlp => ExportFormat::Otlp,
        };
        let service = ("service.name".to_owned(), self.service.clone());
        let choice = Choice {
            labels: std::iter::once(service)
                .chain(self.labels.iter().cloned())
                .collect(),
            ..Choice::default()
        };
        export(profile, format, &choice, &mut content)?;
        Ok(match self.protocol {
            Protocol::Pyroscope => self.ingest(profile, &content),
            Protocol::Parca => self.write_raw(&content),
            Protocol::Otlp => Request {
                query: String::new(),
                content_type: "application/x-protobuf".into(),
                body: content,
            },
        })
    }

    /// Source: "Server HTTP API" of Pyroscope's documentation.
    fn ingest(&self, profile: &Profile, pprof: &[u8]) -> Request {
        let labels = self
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let labels: Vec<String> = labels.collect();
        let name = format!("{}{{{}}}", self.service, labels.join(","));
        let (from, until) = seconds(profile);
        let query = format!(
            "?name={}&from={from}&until={until}&format=pprof&spyName=prof",
            encoded(&name)
        );
        // A line that is in no gzipped file but by a chance of 1 in 2^128.
        let boundary = format!("prof-{:032x}", digest(pprof));
        let mut body = Vec::new();
        for (name, kind, part) in [
            ("profile", "application/octet-stream", pprof),
            (
                "sample_type_config",
                "application/json",
                types(profile).as_bytes(),
            ),
        ] {
            let head = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; \
                 filename=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(part);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        Request {
            query,
            content_type: format!("multipart/form-data; boundary={boundary}"),
            body,
        }
    }

    /// Source: `profilestore.proto` of Parca, by its mapping to HTTP.
    fn write_raw(&self, pprof: &[u8]) -> Request {
        let name = ("__name__".to_owned(), self.service.clone());
        let labels = std::iter::once(&name).chain(&self.labels);
        let labels: Vec<Value> = labels
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let body = json!({
            "series": [{
                "labels": {"labels": labels},
                "samples": [{"rawProfile": base64(pprof)}],
            }],
        });
        Request {
            query: String::new(),
            content_type: "application/json".into(),
            body: body.to_string().into_bytes(),
        }
    }
}

/// Of each type of value what it is, for Pyroscope.
fn types(profile: &Profile) -> String {
    let sampled = profile.events.iter().filter(|event| event.samples > 0);
    let events: Vec<_> = sampled.collect();
    let mut types = Map::new();
    for event in &events {
        let samples = match events.len() {
            1 => "samples".to_owned(),
            _ => format!("samples:{}", event.name),
        };
        let units = if event.weight_is_ns {
            "nanoseconds"
        } else {
            "count"
        };
        for (name, units) in [(samples, "samples"), (event.name.clone(), units)] {
            let about = json!({
                "units": units, "display-name": name, "aggregation": "sum", "sampled": true,
            });
            types.insert(name, about);
        }
    }
    Value::Object(types).to_string()
}

/// When the first and the last sample were taken, seconds since 1970; as long
/// before now as the recording is, where nothing tells.
fn seconds(profile: &Profile) -> (u64, u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let (first, last) = profile.origin.time_range.unwrap_or_default();
    let length = last.saturating_sub(first).div_ceil(1_000_000_000);
    match profile.origin.wall_clock {
        Some((wall, clock)) => {
            let first = wall.wrapping_add(first.wrapping_sub(clock)) / 1_000_000_000;
            (first, first.saturating_add(length.max(1)))
        }
        None => (now.saturating_sub(length.max(1)), now),
    }
}

/// A number that another content does not have.
fn digest(bytes: &[u8]) -> u128 {
    // FNV-1a.
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    bytes.iter().fold(start, |hash, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    })
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let number = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = (number >> (18 - 6 * place)) as usize & 63;
            let digit = DIGITS.get(digit).copied().unwrap_or(b'=');
            out.push(if place > three.len() {
                '='
            } else {
                char::from(digit)
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Store, base64};

    #[test]
    fn three_bytes_are_four_digits() {
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ];
        for (text, expected) in pairs {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }

    #[test]
    fn a_path_tells_its_protocol() {
        let store = |url: &str| Store::new(url, "a", Vec::new());
        assert!(store("http://a:4040/ingest").is_ok());
        assert!(store("http://a:7070/api/profiles/writeraw").is_ok());
        assert!(store("http://a:4318/v1development/profiles").is_ok());
        let told = store("http://a:4040/").expect_err("no protocol");
        assert!(told.contains("/ingest"), "{told}");
    }
}
