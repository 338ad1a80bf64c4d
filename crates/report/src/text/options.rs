//! What a text report is asked for.

use crate::keys::{CellLook, Field, FieldList, SYMBOL, usual};
use crate::model::{Selection, StackEnd};
use prof_profile::Counting;
use std::str::FromStr;
use thiserror::Error;

/// How the report looks.
#[derive(Debug, Clone)]
pub struct TextOptions {
    /// Which samples; each event in turn takes the place of its event.
    pub selection: Selection,
    /// `-s`; `None` for comm, dso and symbol.
    pub sort: Option<Vec<Field>>,
    /// `-F`: exactly these columns, or these and the usual ones; `None` for
    /// the usual ones.
    pub fields: Option<FieldList>,
    /// Whether callers get the weight of what they call. Only with chains.
    pub children: bool,
    /// How call chains are drawn.
    pub call_graph: CallGraph,
    /// `-n`: a column of sample counts.
    pub show_samples: bool,
    /// A column of periods.
    pub show_period: bool,
    /// Columns for kernel and user.
    pub show_cpu_utilization: bool,
    /// `-t`: between columns, instead of two spaces.
    pub separator: Option<String>,
    /// `-w`: widths by column; 0 or none for as wide as needed.
    pub widths: Vec<usize>,
    /// Rows below this share are left out, percent.
    pub percent_limit: f64,
    /// Whether 100 % is what filters let pass.
    pub relative: bool,
    /// Length of a time slice, ns.
    pub quantum: u64,
    /// `-T`: what events counted in each thread, below the tables.
    pub threads: bool,
    /// `-q`: no comment lines.
    pub quiet: bool,
    /// The sort keys as text, told above a table of memory accesses.
    pub sort_text: String,
    /// `--time` as given, told beside the counts.
    pub time: Option<String>,
    /// `-x`: rows without a caller that the pattern finds are left out.
    pub exclude_other: bool,
    /// Rows whose symbol does not have this in its name are left out.
    pub symbol_filter: Option<String>,
    /// How long cells are.
    pub look: CellLook,
    /// Which events share a table.
    pub grouping: Grouping,
    /// Columns of the terminal that the text is for: lines of words are
    /// wrapped, columns are no wider. `None` for text as perf's, as wide as
    /// the longest names.
    pub columns: Option<usize>,
    /// Whether names of functions are written in full even where the terminal
    /// is too narrow.
    pub full_names: bool,
    /// Whether all call chains are drawn, however long the text gets.
    pub unlimited: bool,
    /// Whether frames merged in from branch stacks show the branch's
    /// prediction, cycles and the like.
    pub tells_branches: bool,
    /// Whether the rows are a tree with a level for each sort key.
    pub hierarchy: bool,
}

/// Which events share a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// Those that were recorded as a group.
    #[default]
    AsRecorded,
    /// None.
    Apart,
    /// Those that were recorded as a group; all, if none were.
    Together,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            sort: None,
            fields: None,
            children: true,
            call_graph: CallGraph::default(),
            show_samples: false,
            show_period: false,
            show_cpu_utilization: false,
            separator: None,
            widths: Vec::new(),
            percent_limit: 0.0,
            relative: false,
            quantum: 100_000_000,
            threads: false,
            quiet: false,
            sort_text: String::new(),
            time: None,
            exclude_other: false,
            symbol_filter: None,
            look: CellLook::default(),
            columns: None,
            full_names: false,
            unlimited: false,
            grouping: Grouping::default(),
            tells_branches: true,
            hierarchy: false,
        }
    }
}

impl TextOptions {
    /// The columns, and the fields rows are sorted by.
    pub(crate) fn plan(&self, children: bool) -> (Vec<Field>, Vec<Field>) {
        let mut overheads = Vec::new();
        if children {
            overheads.push(Field::Children);
        }
        overheads.push(Field::Overhead);
        let keys = usual(Counting::Samples).iter().copied().map(Field::Key);
        let keys: Vec<Field> = keys.collect();
        let mut columns = Vec::new();
        let mut order = Vec::new();
        match (&self.fields, &self.sort) {
            (Some(fields), sort) if !fields.is_added => {
                columns.extend(&fields.fields);
                order.extend(sort.iter().flatten());
            }
            (added, sort) => {
                columns.extend(&overheads);
                if self.show_cpu_utilization {
                    columns.extend([Field::OverheadSys, Field::OverheadUs]);
                }
                if self.show_samples {
                    columns.push(Field::Samples);
                }
                if self.show_period {
                    columns.push(Field::Period);
                }
                columns.extend(added.iter().flat_map(|added| &added.fields));
                order.extend(&overheads);
                order.extend(sort.as_deref().unwrap_or(&keys));
            }
        }
        let appended = (order.clone(), columns.clone());
        columns.extend(appended.0);
        order.extend(appended.1);
        (without_repeats(columns), without_repeats(order))
    }

    /// Columns of the terminal that names of functions have to fit.
    pub(super) fn columns_of_names(&self) -> Option<usize> {
        self.columns.filter(|_| !self.full_names)
    }

    /// From which end chains are drawn.
    pub(crate) fn order(&self, has_chains: bool) -> ChainOrder {
        self.call_graph.order(self.children && has_chains)
    }

    /// Whether the columns are exactly those asked for.
    pub(crate) fn has_own_columns(&self) -> bool {
        self.fields.as_ref().is_some_and(|fields| !fields.is_added)
    }

    /// Whether `-s` was given and begins with the symbol: then a single
    /// chain does not repeat it.
    pub(crate) fn begins_with_symbol(&self) -> bool {
        self.fields.is_none()
            && self.sort.as_ref().and_then(|sort| sort.first()) == Some(&Field::Key(SYMBOL))
    }
}

fn without_repeats(fields: Vec<Field>) -> Vec<Field> {
    let mut once: Vec<Field> = Vec::new();
    for field in fields {
        if !once.contains(&field) {
            once.push(field);
        }
    }
    once
}

/// How a chain is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChainStyle {
    /// Not at all.
    None,
    /// A tree; shares of the whole.
    #[default]
    Graph,
    /// A tree; shares of what calls.
    Fractal,
    /// Each chain as a column.
    Flat,
    /// Each chain on a line.
    Folded,
}

/// From which end a chain is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainOrder {
    /// Callers first.
    Caller,
    /// Callees first.
    Callee,
}

impl ChainOrder {
    /// The end that is drawn first.
    pub fn first(self) -> StackEnd {
        match self {
            Self::Caller => StackEnd::Outermost,
            Self::Callee => StackEnd::Leaf,
        }
    }

    /// The end that is drawn last: where perf drops frames beyond a function at
    /// which stacks are cut.
    pub fn last(self) -> StackEnd {
        match self {
            Self::Caller => StackEnd::Leaf,
            Self::Callee => StackEnd::Outermost,
        }
    }
}

/// What makes frames of chains the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChainKey {
    /// The function.
    #[default]
    Function,
    /// The address.
    Address,
    /// The source line.
    Srcline,
}

/// What is written beside a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChainValue {
    /// Share by period.
    #[default]
    Percent,
    /// Sum of periods.
    Period,
    /// Samples.
    Count,
}

/// `-g STYLE,THRESHOLD,LIMIT,ORDER,KEY,VALUE`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallGraph {
    /// How it is drawn.
    pub style: ChainStyle,
    /// Least share of a branch, percent.
    pub threshold: f64,
    /// Most branches of one frame.
    pub limit: Option<u32>,
    /// From which end; `None` for callers first with children, else callees.
    pub order: Option<ChainOrder>,
    /// What is one frame.
    pub key: ChainKey,
    /// What is written.
    pub value: ChainValue,
}

impl CallGraph {
    /// The end from which chains are drawn, depending on whether callers count
    /// (`children`).
    pub fn order(&self, children: bool) -> ChainOrder {
        self.order.unwrap_or(match children {
            true => ChainOrder::Caller,
            false => ChainOrder::Callee,
        })
    }
}

impl Default for CallGraph {
    fn default() -> Self {
        Self {
            style: ChainStyle::default(),
            threshold: 0.5,
            limit: None,
            order: None,
            key: ChainKey::default(),
            value: ChainValue::default(),
        }
    }
}

/// A word that means nothing after `-g`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "cannot use {word:?} in a call-graph option: it takes \
     graph|fractal|flat|folded|none, a threshold in percent, a limit, \
     caller|callee, function|address|srcline, percent|period|count"
)]
pub struct CallGraphError {
    /// The word.
    pub word: String,
}

impl FromStr for CallGraph {
    type Err = CallGraphError;

    /// Reads perf's `-g` argument: words in any order, each may be shortened.
    fn from_str(text: &str) -> Result<Self, CallGraphError> {
        let mut graph = Self::default();
        let mut threshold_given = false;
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let is = |whole: &str| whole.starts_with(word);
            match () {
                () if is("none") => graph.style = ChainStyle::None,
                () if is("graph") => graph.style = ChainStyle::Graph,
                () if is("flat") => graph.style = ChainStyle::Flat,
                () if is("fractal") => graph.style = ChainStyle::Fractal,
                () if is("folded") => graph.style = ChainStyle::Folded,
                () if is("caller") => graph.order = Some(ChainOrder::Caller),
                () if is("callee") => graph.order = Some(ChainOrder::Callee),
                () if is("function") => graph.key = ChainKey::Function,
                () if is("address") => graph.key = ChainKey::Address,
                () if is("srcline") => graph.key = ChainKey::Srcline,
                () if is("percent") => graph.value = ChainValue::Percent,
                () if is("period") => graph.value = ChainValue::Period,
                () if is("count") => graph.value = ChainValue::Count,
                () => {
                    let number: f64 = word
                        .parse()
                        .ok()
                        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
                        .ok_or_else(|| CallGraphError { word: word.into() })?;
                    if threshold_given {
                        graph.limit = Some(number as u32).filter(|&limit| limit > 0);
                    } else {
                        graph.threshold = number;
                        threshold_given = true;
                    }
                }
            }
        }
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::{CallGraph, ChainKey, ChainOrder, ChainStyle, ChainValue};

    #[test]
    fn the_words_of_perfs_call_graph_option_are_read() {
        let graph: CallGraph = "fractal,1.5,7,callee,address,count".parse().unwrap();
        assert_eq!(
            graph,
            CallGraph {
                style: ChainStyle::Fractal,
                threshold: 1.5,
                limit: Some(7),
                order: Some(ChainOrder::Callee),
                key: ChainKey::Address,
                value: ChainValue::Count,
            }
        );
        assert!("graph,wrong".parse::<CallGraph>().is_err());
        assert!("-1".parse::<CallGraph>().is_err());
    }
}
