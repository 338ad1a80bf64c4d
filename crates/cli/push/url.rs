//! Where profiles are sent to.

/// Where to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// Whether it begins with `https`.
    pub(crate) is_encrypted: bool,
    /// Host and port, as the Host header has them.
    pub(crate) authority: String,
    /// With the leading slash.
    pub(crate) path: String,
}

impl Url {
    /// From text.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const WRONG: &str = "not http://HOST/PATH or https://HOST/PATH";
        let (rest, is_encrypted) = match text.strip_prefix("https://") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("http://").ok_or(WRONG)?, false),
        };
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let is_plain = |it: char| it.is_ascii_graphic() && !"@\"'<>\\".contains(it);
        if authority.is_empty() || !text.chars().all(is_plain) {
            return Err(WRONG.into());
        }
        if let Some((_, port)) = authority.rsplit_once(':')
            && !port.contains(']')
        {
            let _: u16 = port.parse().map_err(|_| "its port is no number")?;
        }
        if !prof_http::is_url(text) {
            return Err(WRONG.into());
        }
        Ok(Self {
            is_encrypted,
            authority: authority.to_owned(),
            path: path.to_owned(),
        })
    }

    /// As it is written, without the query.
    pub(crate) fn shown(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::Url;

    #[test]
    fn addresses_are_taken_apart_and_others_refused() {
        let url = Url::parse("http://store:4040/ingest").expect("an address");
        assert_eq!((&*url.authority, &*url.path), ("store:4040", "/ingest"));
        let url = Url::parse("http://[::1]:8/a").expect("an address");
        assert_eq!(url.authority, "[::1]:8");
        let url = Url::parse("https://a/b").expect("an address");
        assert!(url.is_encrypted && url.shown() == "https://a/b");
        for wrong in [
            "ftp://a/b",
            "a/b",
            "http:///x",
            "http://a:x/",
            "http://a/\r\nX: y",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }
}
