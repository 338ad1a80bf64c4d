//! OpenTelemetry's profiles. The protocol is not stable yet: each version of
//! it is a module here, named as its package of messages.

pub(crate) mod v1development;
