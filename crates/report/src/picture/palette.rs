//! Colours with a meaning.

use crate::model::{Scene, Site, SiteKind};
use inferno::flamegraph::color::Color;
use std::str::FromStr;

/// The kind of a frame, as colours tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A thread or process.
    Task,
    /// Code of a program or library.
    User,
    /// Code inlined into its caller.
    Inline,
    /// Code made at run time.
    Jit,
    /// Kernel or hypervisor.
    Kernel,
    /// An address without a name.
    Unnamed,
    /// What a thread waited for.
    Waiting,
    /// That a thread only needed a CPU.
    Runnable,
}

impl Kind {
    /// All kinds with a word for a legend.
    pub(crate) const LEGEND: [(Self, &'static str); 7] = [
        (Self::User, "user"),
        (Self::Inline, "inlined"),
        (Self::Jit, "run-time code"),
        (Self::Kernel, "kernel"),
        (Self::Unnamed, "no name"),
        (Self::Waiting, "waiting"),
        (Self::Runnable, "for a CPU"),
    ];

    /// What a frame of a scene is.
    pub(crate) fn of(scene: &Scene<'_>, site: &Site) -> Self {
        let profile = scene.profile();
        match site.kind {
            SiteKind::Inline => Self::Inline,
            _ if site.is_waiting(profile) => Self::Waiting,
            _ if site.is_runnable(profile) => Self::Runnable,
            _ if site.is_kernel(profile) => Self::Kernel,
            _ if site.is_jit(profile) => Self::Jit,
            SiteKind::Function if site.function(profile).unnamed.is_some() => Self::Unnamed,
            SiteKind::Function | SiteKind::Dso => Self::User,
        }
    }

    /// How tools that read folded stacks mark it, behind the name.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Inline => "_[i]",
            Self::Jit => "_[j]",
            Self::Kernel => "_[k]",
            Self::Task | Self::User | Self::Unnamed | Self::Waiting | Self::Runnable => "",
        }
    }

    /// Hue in degrees; saturation and lightness, percent. Hues lie apart for
    /// colour-blind eyes, too: kinds also differ in lightness.
    fn tone(self) -> (f64, f64, f64) {
        match self {
            Self::Task => (0.0, 0.0, 82.0),
            Self::User => (42.0, 92.0, 62.0),
            Self::Inline => (200.0, 70.0, 74.0),
            Self::Jit => (150.0, 55.0, 52.0),
            Self::Kernel => (18.0, 88.0, 56.0),
            Self::Unnamed => (30.0, 8.0, 70.0),
            Self::Waiting => (262.0, 60.0, 70.0),
            Self::Runnable => (325.0, 70.0, 82.0),
        }
    }
}

/// What the colours of a picture mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// Kernel, user, inlined, made at run time.
    #[default]
    Kind,
    /// One colour per dso.
    Dso,
    /// The warm colours of the first flame graphs, without meaning.
    Hot,
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "kind" => Ok(Self::Kind),
            // `module` is what it was called first.
            "dso" | "module" => Ok(Self::Dso),
            "hot" => Ok(Self::Hot),
            _ => Err("colours are by kind, dso or hot".into()),
        }
    }
}

impl Scheme {
    /// The colour of a frame: the same in every picture.
    pub(crate) fn colour(self, kind: Kind, name: &str, dso: &str) -> Color {
        let by_name = spread(name);
        let (hue, saturation, lightness) = match self {
            _ if kind == Kind::Task => kind.tone(),
            Self::Kind => kind.tone(),
            Self::Dso => (360.0 * spread(dso), 60.0, 68.0),
            Self::Hot => (60.0 * by_name, 90.0, 62.0),
        };
        // Neighbours of one kind stay apart by a little.
        let hue = hue + 10.0 * (by_name - 0.5);
        let lightness = lightness + 8.0 * (spread(dso) - 0.5);
        to_rgb(hue, saturation, lightness)
    }
}

/// A number from 0 to 1 that a text always gets.
fn spread(text: &str) -> f64 {
    // FNV-1a: stable from version to version, which a hasher of the standard
    // library does not promise.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 40) as f64 / f64::from(1 << 24)
}

fn to_rgb(hue: f64, saturation: f64, lightness: f64) -> Color {
    let (saturation, lightness) = (saturation / 100.0, lightness / 100.0);
    let reach = saturation * lightness.min(1.0 - lightness);
    let part = |offset: f64| {
        let k = (offset + hue.rem_euclid(360.0) / 30.0) % 12.0;
        let value = lightness - reach * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (255.0 * value).round().clamp(0.0, 255.0) as u8
    };
    Color {
        r: part(0.0),
        g: part(8.0),
        b: part(4.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Scheme, to_rgb};

    #[test]
    fn colours_are_those_of_the_hue() {
        let red = to_rgb(0.0, 100.0, 50.0);
        assert_eq!((red.r, red.g, red.b), (255, 0, 0));
        let blue = to_rgb(240.0, 100.0, 50.0);
        assert_eq!((blue.r, blue.g, blue.b), (0, 0, 255));
        let grey = to_rgb(77.0, 0.0, 50.0);
        assert_eq!((grey.r, grey.g, grey.b), (128, 128, 128));
    }

    #[test]
    fn a_function_has_one_colour_and_kinds_differ() {
        let user = Scheme::Kind.colour(Kind::User, "main", "app");
        let again = Scheme::Kind.colour(Kind::User, "main", "app");
        let kernel = Scheme::Kind.colour(Kind::Kernel, "main", "app");
        assert_eq!((user.r, user.g, user.b), (again.r, again.g, again.b));
        assert_ne!((user.r, user.g, user.b), (kernel.r, kernel.g, kernel.b));
    }
}
