//! Stepping over the fields of a sample.

use crate::branch::Branch;
use crate::fields::{BodyError, Fields, Short};
use crate::layout::SampleLayout;
use crate::order::{SamplePart, Shape};
use crate::read_values::ReadValues;

impl SamplePart {
    /// Steps over it.
    ///
    /// # Errors
    /// If it claims more bytes than are left.
    #[inline]
    pub(crate) fn skip(
        self,
        fields: &mut Fields<'_>,
        layout: &SampleLayout,
    ) -> Result<(), BodyError> {
        match self.shape() {
            Shape::Branches => return skip_branches(fields, layout),
            Shape::Word => fields.u64().map(drop),
            Shape::Halves => fields.take(8).map(drop),
            Shape::Counters => {
                fields.read_format = layout.read_format;
                ReadValues::take(fields).map(drop)
            }
            Shape::Words => fields.u64().and_then(|nr| skip_items(fields, nr, 8)),
            Shape::Raw => fields
                .u32()
                .and_then(|size| skip_items(fields, size.into(), 1)),
            Shape::Registers => skip_registers(fields, layout.mask_of(self)),
            Shape::Stack => skip_stack(fields),
            Shape::Bytes => fields.u64().and_then(|size| skip_items(fields, size, 1)),
        }
        .map_err(in_field(self.text()))
    }
}

fn in_field(field: &'static str) -> impl Fn(Short) -> BodyError {
    move |short| BodyError { field, short }
}

/// What a sample says whose fixed part is cut.
pub(crate) fn in_fixed_part(short: Short) -> BodyError {
    in_field(SamplePart::Identifier.text())(short)
}

#[inline]
fn skip_items(fields: &mut Fields<'_>, count: u64, width: usize) -> Result<(), Short> {
    fields.items(count, width).map(drop)
}

fn skip_branches(fields: &mut Fields<'_>, layout: &SampleLayout) -> Result<(), BodyError> {
    let in_stack = in_field(SamplePart::Branches.text());
    let nr = fields.u64().map_err(&in_stack)?;
    if layout.branch_hw_index {
        fields.u64().map_err(&in_stack)?;
    }
    skip_items(fields, nr, Branch::SIZE).map_err(&in_stack)?;
    if layout.branch_counters {
        skip_items(fields, nr, 8).map_err(in_field("branch counters"))?;
    }
    Ok(())
}

fn skip_registers(fields: &mut Fields<'_>, mask: u64) -> Result<(), Short> {
    let abi = fields.u64()?;
    let values = if abi == 0 { 0 } else { mask.count_ones() };
    skip_items(fields, values.into(), 8)
}

fn skip_stack(fields: &mut Fields<'_>) -> Result<(), Short> {
    let size = fields.u64()?;
    skip_items(fields, size, 1)?;
    if size != 0 {
        fields.u64()?;
    }
    Ok(())
}
