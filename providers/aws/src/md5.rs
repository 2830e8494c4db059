//! MD5, for the checksum in a label of the Go program; nothing is protected by the digest. RFC 1321.

const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// Returns the digest of a text in hexadecimal digits.
pub(crate) fn hex(text: &[u8]) -> String {
    let mut padded = text.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64) + if padded.len() % 64 > 56 { 64 } else { 0 } - 8, 0);
    padded.extend((text.len() as u64 * 8).to_le_bytes());
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476_u32];
    for block in padded.chunks_exact(64) {
        let words: Vec<u32> =
            block.chunks_exact(4).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]])).collect();
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64_usize {
            let (mix, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), 5 * step + 1),
                2 => (b ^ c ^ d, 3 * step + 5),
                _ => (c ^ (b | !d), 7 * step),
            };
            let sum = a.wrapping_add(mix).wrapping_add(constant(step)).wrapping_add(words[word % 16]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(ROTATIONS[step / 16][step % 4]));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(part);
        }
    }
    state.iter().flat_map(|it| it.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the constant of a step: the first 32 bits of the sine.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "as RFC 1321 has it"
)]
fn constant(step: usize) -> u32 {
    ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_rfc_1321() {
        let long = "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        let table = [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (long, "57edf4a22be3c955ac49da2e2107b67a"),
        ];
        for (text, digest) in table {
            assert_eq!(hex(text.as_bytes()), digest, "{text:?}");
        }
        assert_eq!(hex(&[b'x'; 55]).len() + hex(&[b'x'; 56]).len() + hex(&[b'x'; 64]).len(), 96);
    }
}
