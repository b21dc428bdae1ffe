//! Small damages to an input, of the kinds that find mistakes in parsers.

use huld::base::entropy::Entropy;

/// Inputs don't grow beyond this.
const MAX_BYTES: usize = 1 << 16;

/// Changes `input` in one to four places; `other` lends bytes to it.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], entropy: &mut Entropy) {
    for _ in 0..=entropy.below(4) {
        once(input, other, entropy);
    }
    input.truncate(MAX_BYTES);
}

fn once(input: &mut Vec<u8>, other: &[u8], entropy: &mut Entropy) {
    let len = input.len();
    let at = entropy.below(len as u64 + 1) as usize;
    match entropy.below(9) {
        0 => {
            let flipped = 1u8 << entropy.below(8) ^ input.get(at).copied().unwrap_or(0);
            overwrite(input, at, &[flipped]);
        }
        1 => overwrite(input, at, &[entropy.next_u64() as u8]),
        2 => overwrite(input, at, interesting(entropy)),
        3 => {
            let bytes = interesting(entropy);
            input.splice(at..at, bytes.iter().copied());
        }
        4 => input.truncate(at),
        5 => {
            let end = (at + entropy.below(16) as usize).min(len);
            input.drain(at..end);
        }
        6 => {
            let end = (at + entropy.below(64) as usize).min(len);
            let part = input[at..end].to_vec();
            input.splice(at..at, part);
        }
        7 => {
            let from = entropy.below(other.len() as u64 + 1) as usize;
            let end = (from + entropy.below(64) as usize).min(other.len());
            input.splice(at..at, other[from..end].iter().copied());
        }
        _ => {
            let sum = input.get(at).copied().unwrap_or(0).wrapping_add_signed(entropy.below(9) as i8 - 4);
            overwrite(input, at, &[sum]);
        }
    }
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    for (place, byte) in input.iter_mut().skip(at).zip(bytes) {
        *place = *byte;
    }
}

/// Lengths and counts at the edge of something, as fixed numbers and as varints.
fn interesting(entropy: &mut Entropy) -> &'static [u8] {
    const BYTES: [&[u8]; 14] = [
        &[0],
        &[0xff],
        &[0x7f, 0xff],
        &[0xff, 0xfe],
        &[0, 0, 0, 0],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xfe],
        &[0x80, 0, 0, 0],
        &[0, 0x10, 0, 0],
        &[0x80, 0x80, 0x80, 0x80, 0x08],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    ];
    BYTES[entropy.below(BYTES.len() as u64) as usize]
}
