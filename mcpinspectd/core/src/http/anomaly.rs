//! What is wrong with a connection's bytes.
//!
//! If two readers may disagree about where a message ends, one of them can be shown a different
//! message than the other: that is request smuggling. Such a place is reported, never guessed at,
//! and the rest of its direction is left alone.

use std::fmt;

/// Something that a careful peer does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Anomaly {
    /// A line of a head ends in only a line feed.
    BareLineFeed,
    /// A head contains a carriage return on its own.
    BareCarriageReturn,
    /// A field continues on the next line.
    FoldedField,
    /// There is white space before the colon of a field, or before its name.
    SpaceInFieldName,
    /// A field or the first line cannot be read.
    MalformedHead,
    /// A head is larger than the limit, or has more fields.
    HeadTooLarge,
    /// A body has both a length and a transfer coding.
    LengthAndCoding,
    /// A head has more than one length.
    SeveralLengths,
    /// A length is not a number.
    MalformedLength,
    /// A transfer coding is not `chunked`, or is used in HTTP/1.0.
    UnknownTransferCoding,
    /// A chunk's size or end cannot be read, or its extension is too long.
    MalformedChunk,
    /// A response answers no request.
    UnexpectedResponse,
    /// The preface of HTTP/2 is wrong, or a frame has a size or stream that it must not have.
    MalformedFrame,
    /// Another frame appears where the rest of a block of headers must be.
    InterruptedHeaders,
    /// A block of compressed headers cannot be read.
    MalformedCompression,
    /// A head of HTTP/2 has a field that frames a body in HTTP/1.
    ForbiddenField,
    /// A body of HTTP/2 is longer or shorter than its head says.
    WrongLength,
    /// A field that may appear once appears twice, with different values.
    RepeatedField,
    /// More exchanges are open than are followed.
    TooManyExchanges,
}

impl Anomaly {
    /// The word for programs to read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BareLineFeed => "bare_line_feed",
            Self::BareCarriageReturn => "bare_carriage_return",
            Self::FoldedField => "folded_field",
            Self::SpaceInFieldName => "space_in_field_name",
            Self::MalformedHead => "malformed_head",
            Self::HeadTooLarge => "head_too_large",
            Self::LengthAndCoding => "length_and_coding",
            Self::SeveralLengths => "several_lengths",
            Self::MalformedLength => "malformed_length",
            Self::UnknownTransferCoding => "unknown_transfer_coding",
            Self::MalformedChunk => "malformed_chunk",
            Self::UnexpectedResponse => "unexpected_response",
            Self::MalformedFrame => "malformed_frame",
            Self::InterruptedHeaders => "interrupted_headers",
            Self::MalformedCompression => "malformed_compression",
            Self::ForbiddenField => "forbidden_field",
            Self::WrongLength => "wrong_length",
            Self::RepeatedField => "repeated_field",
            Self::TooManyExchanges => "too_many_exchanges",
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
