//! What colours and signs mean, for every kind of terminal.
//!
//! Each [`Kind`] of code has one colour and one sign, so nothing is told by
//! colour alone. The colours are those of Okabe and Ito, which people with
//! any kind of colour vision tell apart.

use prof_profile::Profile;
use prof_report::model::Changed;
use prof_report::model::{Site, SiteKind};
use prof_report::picture::change_colour;
use prof_statistics::Verdict;
use ratatui::style::{Color, Modifier, Style};

/// How many colours there are to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// None: `NO_COLOR`, or a terminal without.
    None,
    /// The sixteen that the user's terminal defines.
    Sixteen,
    /// Any.
    Full,
}

/// What the text stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// Light text on dark.
    Dark,
    /// Dark text on light.
    Light,
}

/// Which characters the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    /// All of Unicode.
    Unicode,
    /// Only ASCII: the locale is not UTF-8.
    Ascii,
}

/// What the terminal can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Its colours.
    pub colours: Colours,
    /// Its background.
    pub background: Background,
    /// Its characters.
    pub charset: Charset,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            colours: Colours::Full,
            background: Background::Dark,
            charset: Charset::Unicode,
        }
    }
}

impl Look {
    /// What the environment says: `NO_COLOR`, `COLORTERM`, `TERM`,
    /// `COLORFGBG` and the locale. `variable` reads one of them.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let filled = |name| variable(name).filter(|value| !value.is_empty());
        let term = filled("TERM").unwrap_or_default();
        let colours = if filled("NO_COLOR").is_some() || term == "dumb" || term.starts_with("vt") {
            Colours::None
        } else if filled("COLORTERM").is_some() || term.contains("256color") {
            Colours::Full
        } else {
            Colours::Sixteen
        };
        // `foreground;background` or `foreground;default;background`.
        let background = match filled("COLORFGBG")
            .as_deref()
            .and_then(|value| value.rsplit(';').next())
        {
            Some("7" | "15") => Background::Light,
            _ => Background::Dark,
        };
        let locale = filled("LC_ALL")
            .or_else(|| filled("LC_CTYPE"))
            .or_else(|| filled("LANG"));
        let is_utf8 = locale.is_some_and(|name| {
            let name = name.to_ascii_lowercase();
            name.contains("utf-8") || name.contains("utf8")
        });
        Self {
            colours,
            background,
            charset: if is_utf8 {
                Charset::Unicode
            } else {
                Charset::Ascii
            },
        }
    }
}

/// What kind of code a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Kernel,
    User,
    Inlined,
    Jit,
    /// An address without a name.
    Unnamed,
    /// What a thread waited for.
    Waiting,
    /// That a thread only needed a CPU.
    Runnable,
}

impl Kind {
    pub(super) const ALL: [Self; 7] = [
        Self::User,
        Self::Inlined,
        Self::Kernel,
        Self::Jit,
        Self::Unnamed,
        Self::Waiting,
        Self::Runnable,
    ];

    /// The kind of a frame.
    pub(super) fn of(profile: &Profile, site: &Site) -> Self {
        if site.function(profile).unnamed.is_some() && site.kind != SiteKind::Dso {
            Self::Unnamed
        } else if site.kind == SiteKind::Inline {
            Self::Inlined
        } else if site.is_waiting(profile) {
            Self::Waiting
        } else if site.is_runnable(profile) {
            Self::Runnable
        } else if site.is_kernel(profile) {
            Self::Kernel
        } else if site.is_jit(profile) {
            Self::Jit
        } else {
            Self::User
        }
    }

    /// Its sign: perf's for kernel and user code.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Kernel => "[k]",
            Self::User => "[.]",
            Self::Inlined => "[i]",
            Self::Jit => "[j]",
            Self::Unnamed => "[?]",
            Self::Waiting => "[w]",
            Self::Runnable => "[r]",
        }
    }

    /// In words.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::User => "user",
            Self::Inlined => "inlined",
            Self::Jit => "JIT",
            Self::Unnamed => "no name",
            Self::Waiting => "waiting",
            Self::Runnable => "waiting for a CPU",
        }
    }
}

/// Styles and signs of a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Theme {
    look: Look,
    pub(super) glyphs: &'static Glyphs,
}

impl Theme {
    pub(super) fn new(look: Look) -> Self {
        Self {
            look,
            glyphs: match look.charset {
                Charset::Unicode => &UNICODE,
                Charset::Ascii => &ASCII,
            },
        }
    }

    /// The same on another background.
    pub(super) fn on(self, background: Background) -> Self {
        Self::new(Look {
            background,
            ..self.look
        })
    }

    fn is_light(&self) -> bool {
        self.look.background == Background::Light
    }

    /// Picks by the number of colours; no colour is no style.
    fn colour(&self, sixteen: Color, dark: (u8, u8, u8), light: (u8, u8, u8)) -> Option<Color> {
        match self.look.colours {
            Colours::None => None,
            Colours::Sixteen => Some(sixteen),
            Colours::Full => {
                let (red, green, blue) = if self.is_light() { light } else { dark };
                Some(Color::Indexed(nearest_of_256(red, green, blue)))
            }
        }
    }

    fn foreground(&self, sixteen: Color, dark: (u8, u8, u8), light: (u8, u8, u8)) -> Style {
        self.colour(sixteen, dark, light)
            .map_or_else(Style::new, |colour| Style::new().fg(colour))
    }

    fn kind_colour(&self, kind: Kind) -> Option<Color> {
        match kind {
            Kind::Kernel => self.colour(Color::Yellow, (230, 159, 0), (176, 96, 0)),
            Kind::User => self.colour(Color::Cyan, (86, 180, 233), (0, 95, 175)),
            Kind::Inlined => self.colour(Color::Green, (0, 175, 135), (0, 115, 85)),
            Kind::Jit => self.colour(Color::Magenta, (204, 121, 167), (150, 50, 110)),
            Kind::Unnamed => self.colour(Color::DarkGray, (148, 148, 148), (98, 98, 98)),
            Kind::Waiting => self.colour(Color::Blue, (175, 135, 255), (95, 0, 215)),
            Kind::Runnable => self.colour(Color::Red, (255, 135, 135), (175, 0, 0)),
        }
    }

    /// Text of a frame of this kind.
    pub(super) fn kind(&self, kind: Kind) -> Style {
        self.kind_colour(kind)
            .map_or_else(Style::new, |colour| Style::new().fg(colour))
    }

    /// A frame of the flame graph: its kind's colour as ground, shaded by its
    /// dso so that neighbours differ.
    pub(super) fn flame(&self, kind: Kind, dso: u32) -> Style {
        if self.look.colours == Colours::None {
            return if dso.is_multiple_of(2) {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
        }
        if self.look.colours == Colours::Sixteen {
            let ground = self.kind_colour(kind).unwrap_or(Color::Gray);
            return Style::new().bg(ground).fg(Color::Black);
        }
        let (red, green, blue) = match kind {
            Kind::Kernel => (255, 175, 0),
            Kind::User => (95, 175, 215),
            Kind::Inlined => (95, 215, 175),
            Kind::Jit => (215, 135, 175),
            Kind::Unnamed => (168, 168, 168),
            Kind::Waiting => (175, 135, 255),
            Kind::Runnable => (255, 175, 175),
        };
        let shade = |value: u16| {
            let percent = [100, 84, 92][(dso % 3) as usize];
            u8::try_from(value * percent / 100).unwrap_or(u8::MAX)
        };
        Style::new()
            .bg(Color::Rgb(shade(red), shade(green), shade(blue)))
            .fg(Color::Rgb(0, 0, 0))
    }

    /// The row or frame the cursor is on.
    pub(super) fn selected(&self) -> Style {
        match self.look.colours {
            Colours::None => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
            // Reversed, each part of the row would have another ground.
            Colours::Sixteen => Style::new()
                .bg(Color::Blue)
                .fg(Color::White)
                .add_modifier(Modifier::BOLD),
            Colours::Full if self.is_light() => Style::new()
                .bg(Color::Indexed(189))
                .add_modifier(Modifier::BOLD),
            Colours::Full => Style::new()
                .bg(Color::Indexed(238))
                .add_modifier(Modifier::BOLD),
        }
    }

    /// The frame of the flame graph the cursor is on.
    pub(super) fn cursor_cell(&self) -> Style {
        match self.look.colours {
            Colours::None => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            _ if self.is_light() => Style::new()
                .bg(Color::Black)
                .fg(Color::White)
                .add_modifier(Modifier::BOLD),
            _ => Style::new()
                .bg(Color::White)
                .fg(Color::Black)
                .add_modifier(Modifier::BOLD),
        }
    }

    /// What matches the search.
    pub(super) fn found(&self) -> Style {
        match self.look.colours {
            Colours::None => Style::new().add_modifier(Modifier::UNDERLINED | Modifier::BOLD),
            _ => Style::new()
                .bg(Color::Magenta)
                .fg(Color::White)
                .add_modifier(Modifier::BOLD),
        }
    }

    /// Bars of shares.
    pub(super) fn bar(&self) -> Style {
        self.foreground(Color::Red, (215, 95, 0), (215, 95, 0))
    }

    /// A share: large ones stand out as in perf (>= 5 %, >= 0.5 %).
    pub(super) fn share(&self, percent: f64) -> Style {
        if percent >= 5.0 {
            self.foreground(Color::Red, (255, 95, 95), (190, 0, 0))
                .add_modifier(Modifier::BOLD)
        } else if percent >= 0.5 {
            self.foreground(Color::Green, (135, 215, 95), (0, 115, 0))
        } else {
            self.dim()
        }
    }

    /// What changed: more or less, and how much; what is not sure is grey.
    pub(super) fn change(&self, changed: &Changed) -> Style {
        match self.look.colours {
            Colours::None => Style::new(),
            Colours::Sixteen => match changed.verdict {
                Verdict::Slower => Style::new().fg(Color::Yellow),
                Verdict::Faster => Style::new().fg(Color::Magenta),
                _ => self.dim(),
            },
            Colours::Full => match changed.verdict {
                Verdict::Slower => self.foreground(Color::Yellow, (241, 163, 64), (179, 88, 6)),
                Verdict::Faster => self.foreground(Color::Magenta, (178, 171, 210), (84, 39, 136)),
                _ => self.dim(),
            },
        }
    }

    /// The same as the ground of a frame of the flame graph, as pictures have
    /// it.
    pub(super) fn changed_frame(&self, changed: &Changed) -> Style {
        match (self.look.colours, changed.verdict) {
            (Colours::None, Verdict::Undecided { .. } | Verdict::Same) => Style::new(),
            (Colours::None, _) => Style::new().add_modifier(Modifier::REVERSED),
            (Colours::Sixteen, verdict) => {
                let ground = match verdict {
                    Verdict::Slower => Color::Yellow,
                    Verdict::Faster => Color::Magenta,
                    Verdict::Same => Color::White,
                    Verdict::Undecided { .. } => Color::Gray,
                };
                Style::new().bg(ground).fg(Color::Black)
            }
            (Colours::Full, _) => {
                let (red, green, blue) = change_colour(changed);
                let luma = 3 * u32::from(red) + 6 * u32::from(green) + u32::from(blue);
                let letters = if luma < 1200 { 255 } else { 0 };
                Style::new()
                    .bg(Color::Rgb(red, green, blue))
                    .fg(Color::Rgb(letters, letters, letters))
            }
        }
    }

    /// What is there but should not catch the eye.
    pub(super) fn dim(&self) -> Style {
        match self.look.colours {
            Colours::None => Style::new().add_modifier(Modifier::DIM),
            _ => self.foreground(Color::DarkGray, (148, 148, 148), (108, 108, 108)),
        }
    }

    /// Headings and the name of the view shown.
    pub(super) fn heading(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The tab of the view shown.
    pub(super) fn tab(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// Source text.
    pub(super) fn source(&self) -> Style {
        self.foreground(Color::Green, (135, 175, 135), (0, 95, 0))
    }

    /// The name of a key.
    pub(super) fn key(&self) -> Style {
        self.foreground(Color::Cyan, (95, 175, 215), (0, 95, 175))
            .add_modifier(Modifier::BOLD)
    }

    /// The lines around what lies on top.
    pub(super) fn border(&self) -> ratatui::symbols::border::Set<'static> {
        match self.look.charset {
            Charset::Unicode => ratatui::symbols::border::PLAIN,
            Charset::Ascii => ratatui::symbols::border::Set {
                top_left: "+",
                top_right: "+",
                bottom_left: "+",
                bottom_right: "+",
                vertical_left: "|",
                vertical_right: "|",
                horizontal_top: "-",
                horizontal_bottom: "-",
            },
        }
    }

    /// A filter in force.
    pub(super) fn chip(&self) -> Style {
        match self.look.colours {
            Colours::None => Style::new().add_modifier(Modifier::REVERSED),
            _ => Style::new().bg(Color::Blue).fg(Color::White),
        }
    }

    /// A warning.
    pub(super) fn warning(&self) -> Style {
        self.foreground(Color::Yellow, (255, 215, 0), (160, 80, 0))
            .add_modifier(Modifier::BOLD)
    }

    /// A cell of the heat map; `level` counts from 0 to [`HEAT_LEVELS`].
    pub(super) fn heat(&self, level: usize) -> Style {
        const DARK: [u8; HEAT_LEVELS + 1] = [235, 53, 90, 127, 167, 208, 214, 228];
        const LIGHT: [u8; HEAT_LEVELS + 1] = [255, 230, 223, 216, 209, 167, 131, 88];
        let scale = if self.is_light() { LIGHT } else { DARK };
        match self.look.colours {
            Colours::Full => {
                let colour = scale.get(level.min(HEAT_LEVELS)).copied().unwrap_or(255);
                Style::new().fg(Color::Indexed(colour))
            }
            Colours::Sixteen => self.foreground(Color::Red, (0, 0, 0), (0, 0, 0)),
            Colours::None => Style::new(),
        }
    }
}

/// Steps of the heat map above empty.
pub(super) const HEAT_LEVELS: usize = 7;

/// The nearest colour of the 6x6x6 cube of 256-colour terminals.
fn nearest_of_256(red: u8, green: u8, blue: u8) -> u8 {
    // Levels are 0, 95, 135, 175, 215, 255.
    let step = |value: u8| match value {
        0..=47 => 0,
        48..=114 => 1,
        _ => (value - 35) / 40,
    };
    16 + 36 * step(red) + 6 * step(green) + step(blue)
}

/// Characters that draw.
#[derive(Debug)]
pub(super) struct Glyphs {
    pub(super) open: &'static str,
    pub(super) closed: &'static str,
    pub(super) leaf: &'static str,
    pub(super) ellipsis: &'static str,
    /// Parts of a bar's cell, from one part to a full cell.
    pub(super) bar: &'static [&'static str],
    /// A bar's cell for what is not its own.
    pub(super) light_bar: &'static str,
    /// What is left of the screen's edge.
    pub(super) before: &'static str,
    /// Cells of the heat map, from empty to full.
    pub(super) heat: [&'static str; HEAT_LEVELS + 1],
    /// Cells of a small curve, from empty to full.
    pub(super) spark: [&'static str; 9],
    pub(super) vertical: &'static str,
    pub(super) horizontal: &'static str,
    /// Jump arrows: from above, from below, the target, and crossing.
    pub(super) corner_down: &'static str,
    pub(super) corner_up: &'static str,
    pub(super) arrow: &'static str,
    /// Several frames merged in one cell.
    pub(super) merged: &'static str,
    pub(super) cursor: &'static str,
    /// The left edge of a frame in the flame graph.
    pub(super) edge: &'static str,
    pub(super) up: &'static str,
    pub(super) down: &'static str,
}

static UNICODE: Glyphs = Glyphs {
    open: "▾ ",
    closed: "▸ ",
    leaf: "  ",
    ellipsis: "…",
    bar: &["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
    light_bar: "░",
    before: "«",
    heat: [" ", "░", "░", "▒", "▒", "▓", "▓", "█"],
    spark: [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    vertical: "│",
    horizontal: "─",
    corner_down: "┌",
    corner_up: "└",
    arrow: "►",
    merged: "▒",
    cursor: "▶",
    edge: "▏",
    up: "▴",
    down: "▾",
};

static ASCII: Glyphs = Glyphs {
    open: "- ",
    closed: "+ ",
    leaf: "  ",
    ellipsis: "~",
    bar: &["#"],
    light_bar: ".",
    before: "<",
    heat: [" ", ".", ":", "-", "=", "+", "*", "#"],
    spark: [" ", ".", ".", ":", ":", "+", "+", "#", "#"],
    vertical: "|",
    horizontal: "-",
    corner_down: ",",
    corner_up: "`",
    arrow: ">",
    merged: "%",
    cursor: ">",
    edge: "|",
    up: "^",
    down: "v",
};

#[cfg(test)]
mod tests {
    use super::{Background, Charset, Colours, Look};

    fn look(variables: &[(&str, &str)]) -> Look {
        Look::of_environment(|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn the_environment_decides_colours_and_characters() {
        let plain = look(&[("TERM", "xterm")]);
        assert_eq!(plain.colours, Colours::Sixteen);
        assert_eq!(plain.charset, Charset::Ascii);
        let rich = look(&[("TERM", "xterm-256color"), ("LANG", "de_DE.UTF-8")]);
        assert_eq!(rich.colours, Colours::Full);
        assert_eq!(rich.charset, Charset::Unicode);
        let without = look(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]);
        assert_eq!(without.colours, Colours::None);
        let empty = look(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]);
        assert_eq!(empty.colours, Colours::Full);
        let light = look(&[("COLORFGBG", "0;default;15")]);
        assert_eq!(light.background, Background::Light);
        // LC_ALL wins over LANG.
        let posix = look(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]);
        assert_eq!(posix.charset, Charset::Ascii);
    }
}
