//! How a line says whose counts it shows.

use crate::aggregate::Id;
use prof_report::escape;

/// Whose counts a line shows, and how many they are made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Label {
    /// Whose.
    pub(crate) id: Id,
    /// How many counts.
    pub(crate) members: usize,
}

impl Label {
    /// The name and, in JSON, what it is a name of; `None` for all.
    fn named(&self) -> Option<(String, &'static str)> {
        Some(match &self.id {
            Id::All => return None,
            Id::Cpu(cpu) => (format!("CPU{cpu}"), "cpu"),
            Id::Core(socket, die, core) => (format!("S{socket}-D{die}-C{core}"), "core"),
            Id::Cluster(socket, die, cluster) => {
                (format!("S{socket}-D{die}-CLS{cluster}"), "cluster")
            }
            Id::Cache(socket, die, level, id) => {
                (format!("S{socket}-D{die}-L{level}-ID{id}"), "cache")
            }
            Id::Die(socket, die) => (format!("S{socket}-D{die}"), "die"),
            Id::Socket(socket) => (format!("S{socket}"), "socket"),
            Id::Node(node) => (format!("N{node}"), "node"),
            Id::Thread(thread) => (format!("{}-{}", thread.comm, thread.tid), "thread"),
        })
    }

    /// Whether the number of counts stands behind the name.
    fn tells_members(&self) -> bool {
        !matches!(self.id, Id::All | Id::Cpu(_) | Id::Thread(_))
    }

    /// As perf 6.1 writes it before a line of text; its last part has a width
    /// of its own.
    pub(crate) fn text(&self) -> String {
        const LAST: usize = 8;
        let pad = |first: String, last: i32| format!("{first}{last:<LAST$}");
        let name = match &self.id {
            Id::All => return String::new(),
            Id::Cpu(cpu) => return format!("CPU{cpu:<7} "),
            Id::Thread(thread) => {
                let comm = escape::terminal(&thread.comm);
                return format!("{comm:>16}-{:<LAST$} ", thread.tid);
            }
            Id::Core(socket, die, core) => pad(format!("S{socket}-D{die}-C"), *core),
            Id::Cluster(socket, die, cluster) => pad(format!("S{socket}-D{die}-CLS"), *cluster),
            Id::Cache(socket, die, level, id) => pad(format!("S{socket}-D{die}-L{level}-ID"), *id),
            Id::Die(socket, die) => pad(format!("S{socket}-D"), *die),
            Id::Socket(socket) => format!("S{socket:<5}"),
            Id::Node(node) => format!("N{node:<5}"),
        };
        format!("{name} {:>4} ", self.members)
    }

    /// The fields before a separated line.
    pub(crate) fn fields(&self) -> Vec<String> {
        let members = self.tells_members().then(|| self.members.to_string());
        let name = self.named().map(|(name, _)| name);
        name.into_iter().chain(members).collect()
    }

    /// What [`Label::fields`] are, as perf 6.1 names them.
    pub(crate) fn field_names(&self) -> &'static [&'static str] {
        match self.id {
            Id::All => &[],
            Id::Cpu(_) => &["cpu"],
            Id::Core(..) => &["core", "cpus"],
            Id::Cluster(..) => &["cluster", "cpus"],
            Id::Cache(..) => &["cache", "cpus"],
            Id::Die(..) => &["die", "cpus"],
            Id::Socket(_) => &["socket", "cpus"],
            Id::Node(_) => &["node", "cpus"],
            Id::Thread(_) => &["comm-pid"],
        }
    }

    /// The keys and values, these as JSON, before an object's own.
    pub(crate) fn members_of_object(&self) -> Vec<(&'static str, String)> {
        let Some((name, kind)) = self.named() else {
            return Vec::new();
        };
        let name = name.strip_prefix("CPU").map(str::to_owned).unwrap_or(name);
        let quoted = serde_json::Value::from(name).to_string();
        let members = self.tells_members().then(|| self.members.to_string());
        let members = members.map(|members| ("aggregate-number", members));
        std::iter::once((kind, quoted)).chain(members).collect()
    }

    /// What stands above the labels of intervals, from `time` on, up to the
    /// counts.
    pub(crate) fn heading(&self) -> &'static str {
        match self.id {
            Id::All => "time",
            Id::Cpu(_) => "time CPU       ",
            Id::Core(..) => "time core            cpus",
            Id::Cluster(..) => "time cluster           cpus",
            Id::Cache(..) => "time cache               cpus",
            Id::Die(..) => "time die          cpus",
            Id::Socket(_) => "time socket cpus",
            Id::Node(_) => "time node   cpus",
            Id::Thread(_) => "time             comm-pid     ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Label;
    use crate::aggregate::Id;
    use crate::places::ThreadName;

    #[test]
    fn names_are_perfs() {
        let label = |id| Label { id, members: 2 };
        let core = label(Id::Core(0, 0, 1));
        assert_eq!(core.text(), "S0-D0-C1           2 ");
        assert_eq!(core.fields(), ["S0-D0-C1", "2"]);
        assert_eq!(label(Id::Socket(0)).text(), "S0        2 ");
        assert_eq!(label(Id::Cpu(0)).text(), "CPU0       ");
        assert_eq!(
            label(Id::Cpu(1)).members_of_object(),
            [("cpu", "\"1\"".to_owned())]
        );
        let thread = ThreadName {
            tid: 22884,
            comm: "bash".to_owned(),
        };
        assert_eq!(
            label(Id::Thread(thread)).text(),
            "            bash-22884    "
        );
        assert_eq!(label(Id::All).fields(), Vec::<String>::new());
    }
}
