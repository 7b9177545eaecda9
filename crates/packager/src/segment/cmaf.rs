//! CMAF segments (ISO/IEC 23000-19): `moof` from the index, `mdat` from untouched slices of the source.
