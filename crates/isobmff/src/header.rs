//! Box headers (ISO/IEC 14496-12 §4.2.2).

use crate::FourCc;

/// The head of a box: its type and how far it reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoxHeader {
    /// The box's type.
    pub kind: FourCc,
    /// Bytes of the header itself: 8, 16 with a 64-bit size; a `uuid`'s 16 bytes of extended type are payload here.
    pub header_len: u8,
    /// Bytes of the whole box, header included; `None` where the box reaches to the end of the file (size 0).
    pub size: Option<u64>,
}

impl BoxHeader {
    /// Reads a header from the start of `bytes`. `Ok(None)` where there are too few bytes to tell.
    ///
    /// # Errors
    /// [`crate::Error::BadValue`] where the size is smaller than the header.
    pub fn read(bytes: &[u8], offset: u64) -> Result<Option<Self>, crate::Error> {
        let _ = (bytes, offset);
        todo!()
    }
}
