//! Names of methods.

use super::tables::Tables;
use crate::memory::{Memory, bytes, slice, word};

/// Offsets of the fields that lead to a name, bytes.
#[derive(Debug)]
pub(super) struct Fields {
    const_method: u64,
    constants: u64,
    name_index: u64,
    holder: u64,
    pool_size: u64,
    class_name: u64,
    length: u64,
    body: u64,
}

impl Fields {
    pub(super) fn of(tables: &Tables) -> Option<Self> {
        let field = |name: &str| tables.field(name);
        Some(Self {
            const_method: field("Method::_constMethod")?,
            constants: field("ConstMethod::_constants")?,
            name_index: field("ConstMethod::_name_index")?,
            holder: field("ConstantPool::_pool_holder")?,
            pool_size: tables.size("ConstantPool")?,
            class_name: field("Klass::_name")?,
            length: field("Symbol::_length")?,
            body: field("Symbol::_body").or_else(|| field("Symbol::_body[0]"))?,
        })
    }

    pub(super) fn method(&self, method: u64, memory: &mut impl Memory) -> Option<String> {
        let about = word(memory, method.checked_add(self.const_method)?)?;
        let pool = word(memory, about.checked_add(self.constants)?)?;
        let index = u16::from_le_bytes(bytes(memory, about.checked_add(self.name_index)?)?);
        let entry = self.pool_size.checked_add(u64::from(index) * 8)?;
        let name = word(memory, pool.checked_add(entry)?)?;
        let holder = word(memory, pool.checked_add(self.holder)?)?;
        let class = word(memory, holder.checked_add(self.class_name)?)?;
        let class = self.symbol(class, memory)?.replace('/', ".");
        // The lowest bit of a name in the pool may be a mark.
        let name = self.symbol(name & !1, memory)?;
        Some(format!("{class}.{name}"))
    }

    fn symbol(&self, symbol: u64, memory: &mut impl Memory) -> Option<String> {
        let length = u16::from_le_bytes(bytes(memory, symbol.checked_add(self.length)?)?);
        let text = slice(memory, symbol.checked_add(self.body)?, length.into())?;
        let is_name = length > 0
            && !text
                .iter()
                .any(|byte| byte.is_ascii_control() || *byte == b' ');
        is_name.then(|| String::from_utf8(text).ok()).flatten()
    }
}
