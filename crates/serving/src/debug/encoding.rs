//! Just enough of protocol buffers to write a profile.

/// A message that is being written: its fields, in any order.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const BYTES: u64 = 2;

impl Message {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Writes a number; zero is left out, as a missing field means zero.
    pub(super) fn number(mut self, field: u64, value: u64) -> Self {
        if value != 0 {
            varint(&mut self.0, field << 3 | VARINT);
            varint(&mut self.0, value);
        }
        self
    }

    /// Writes a packed list of numbers.
    pub(super) fn numbers(self, field: u64, values: &[u64]) -> Self {
        let mut packed = Vec::new();
        for value in values {
            varint(&mut packed, *value);
        }
        self.bytes(field, &packed)
    }

    pub(super) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(super) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        varint(&mut self.0, field << 3 | BYTES);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
}

/// Writes a varint: seven bits a byte, the lowest first; the highest bit is set if more bytes follow.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_format_says() {
        let inner = Message::new().number(1, 150);
        assert_eq!(inner.0, [0x08, 0x96, 0x01]);
        let outer = Message::new()
            .message(3, &inner)
            .text(2, "testing")
            .numbers(4, &[3, 270, 86_942])
            .number(9, 0);
        let expected: Vec<u8> = [
            [0x1a, 0x03, 0x08, 0x96, 0x01].as_slice(),
            b"\x12\x07testing",
            &[0x22, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05],
        ]
        .concat();
        assert_eq!(outer.into_bytes(), expected);
    }
}
