//! Writing boxes with sizes known beforehand.
