//! What is read of a profile's JSON. Columns are kept as numbers and one text,
//! not as values of JSON, which take ten times the room of the file.

use crate::MOST_SAMPLES;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Entries of a column that are read at most.
const LONGEST: usize = 2 * MOST_SAMPLES as usize;
/// Threads, libraries and the like that are read at most.
const MOST: usize = 1 << 16;
/// What errors of too long lists say.
pub(super) const TOO_MANY: &str = "too many entries";

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct File {
    pub(super) meta: Meta,
    pub(super) libs: List<Lib>,
    pub(super) threads: List<Thread>,
    /// Tables of all threads; older versions have them in each thread.
    pub(super) shared: Thread,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) preprocessed_profile_version: Option<f64>,
    /// ms since 1970.
    pub(super) start_time: f64,
    pub(super) extra: List<Section>,
}

/// What exporters add about the whole profile.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Section {
    pub(super) label: Word,
    pub(super) entries: List<Entry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    pub(super) label: Word,
    pub(super) value: Word,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lib {
    pub(super) name: Word,
    pub(super) path: Word,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Thread {
    pub(super) name: Word,
    pub(super) pid: Word,
    pub(super) tid: Word,
    pub(super) samples: SamplesTable,
    pub(super) stack_table: Option<StackTable>,
    pub(super) frame_table: FrameTable,
    pub(super) func_table: FuncTable,
    pub(super) resource_table: ResourceTable,
    pub(super) sources: SourceTable,
    #[serde(alias = "stringTable")]
    pub(super) string_array: Texts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SamplesTable {
    pub(super) stack: Indices,
    /// ms.
    pub(super) time: Numbers,
    /// ms since the one before.
    pub(super) time_deltas: Numbers,
    pub(super) weight: Option<Numbers>,
    pub(super) weight_type: Option<Word>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StackTable {
    pub(super) prefix: Indices,
    pub(super) frame: Indices,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FrameTable {
    pub(super) address: Numbers,
    pub(super) inline_depth: Indices,
    pub(super) func: Indices,
    pub(super) line: Indices,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FuncTable {
    pub(super) name: Indices,
    pub(super) resource: Indices,
    pub(super) file_name: Indices,
    /// Newer versions: a row of the sources.
    pub(super) source: Indices,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceTable {
    pub(super) lib: Indices,
    pub(super) name: Indices,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SourceTable {
    pub(super) filename: Indices,
}

/// Indices of another table.
#[derive(Debug, Default)]
pub(super) struct Indices(Vec<u32>);

const NONE: u32 = u32::MAX;

impl Indices {
    /// The index in a row; `None` of null, of what is below 0, and behind the
    /// end.
    pub(super) fn get(&self, row: u32) -> Option<u32> {
        let index = self.0.get(row as usize).copied();
        index.filter(|&index| index != NONE)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Option<u32>> + '_ {
        self.0.iter().map(|&it| (it != NONE).then_some(it))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Numbers; those that are missing are 0.
#[derive(Debug, Default)]
pub(super) struct Numbers(Vec<f64>);

impl Numbers {
    pub(super) fn get(&self, row: u32) -> Option<f64> {
        self.0.get(row as usize).copied()
    }
}

/// Texts, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Texts {
    text: String,
    ends: Vec<u32>,
}

impl Texts {
    pub(super) fn get(&self, index: u32) -> &str {
        let end_of = |index: usize| self.ends.get(index).map(|&end| end as usize);
        let start = (index as usize).checked_sub(1).map_or(Some(0), end_of);
        let range = start.zip(end_of(index as usize));
        let text = range.and_then(|(start, end)| self.text.get(start..end));
        text.unwrap_or_default()
    }
}

/// A list of at most `MOST`.
#[derive(Debug)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Text, or a number as text.
#[derive(Debug, Default)]
pub(super) struct Word(pub(super) String);

/// Hands each element of a list to `take`.
struct Each<F, T> {
    take: F,
    most: usize,
    element: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<F, T> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let mut left = self.most;
        while let Some(element) = list.next_element()? {
            (self.take)(element);
            left = left.checked_sub(1).ok_or_else(|| Error::custom(TOO_MANY))?;
        }
        Ok(())
    }
}

fn each<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    input: D,
    most: usize,
    take: impl FnMut(T),
) -> Result<(), D::Error> {
    input.deserialize_any(Each {
        take,
        most,
        element: PhantomData,
    })
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut all = Vec::new();
        each(input, MOST, |element| all.push(element))?;
        Ok(Self(all))
    }
}

impl<'de> Deserialize<'de> for Indices {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut all = Vec::new();
        each(input, LONGEST, |number: Option<f64>| {
            let is_index = |it: &f64| (0.0..f64::from(NONE)).contains(it);
            all.push(number.filter(is_index).map_or(NONE, |it| it as u32));
        })?;
        Ok(Self(all))
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut all = Vec::new();
        each(input, LONGEST, |number: Option<f64>| {
            all.push(number.unwrap_or(0.0));
        })?;
        Ok(Self(all))
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut texts = Self::default();
        input.deserialize_seq(TextsVisitor(&mut texts))?;
        Ok(texts)
    }
}

struct TextsVisitor<'t>(&'t mut Texts);

impl<'de> Visitor<'de> for TextsVisitor<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(AddText(self.0))?.is_some() {
            if self.0.ends.len() > LONGEST {
                return Err(Error::custom(TOO_MANY));
            }
        }
        Ok(())
    }
}

/// Adds a text to the others.
struct AddText<'t>(&'t mut Texts);

impl<'de> DeserializeSeed<'de> for AddText<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_str(self)
    }
}

impl Visitor<'_> for AddText<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.text.push_str(text);
        let end = u32::try_from(self.0.text.len());
        self.0.ends.push(end.map_err(|_| Error::custom(TOO_MANY))?);
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(WordVisitor)
    }
}

struct WordVisitor;

impl<'de> Visitor<'de> for WordVisitor {
    type Value = Word;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text or a number")
    }

    fn visit_unit<E: Error>(self) -> Result<Word, E> {
        Ok(Word::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Word, E> {
        Ok(Word::default())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Word, E> {
        Ok(Word(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Word, E> {
        Ok(Word(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Word, E> {
        Ok(Word(number.to_string()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
        Ok(Word(text.to_owned()))
    }

    // What other tools put there is of no use here.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Word, A::Error> {
        while list.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(Word::default())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Word, A::Error> {
        type Ignored = serde::de::IgnoredAny;
        while map.next_entry::<Ignored, Ignored>()?.is_some() {}
        Ok(Word::default())
    }
}
