//! A bounded reader over borrowed bytes.
