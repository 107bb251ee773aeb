//! Redis Cluster's hash slots: CRC16 (XMODEM) of the hash tag, modulo 16,384.
//! Source: the Redis Cluster specification, "Keys distribution model".

/// A hash slot. Invariant: below [`Slot::COUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// How many slots a cluster has.
    pub const COUNT: u16 = 16_384;

    /// The slot numbered `n`, or `None` when there is none.
    pub const fn new(n: u16) -> Option<Self> {
        if n < Self::COUNT { Some(Slot(n)) } else { None }
    }

    /// The slot of `key`, by its hash tag: what stands between the first `{` and the next `}`,
    /// or the whole key when that is empty or missing.
    pub fn of(key: &[u8]) -> Self {
        let tag = key.iter().position(|&b| b == b'{').and_then(|open| {
            let rest = &key[open + 1..];
            rest.iter()
                .position(|&b| b == b'}')
                .map(|close| &rest[..close])
        });
        match tag {
            Some(tag) if !tag.is_empty() => Slot(crc16(tag) % Self::COUNT),
            _ => Slot(crc16(key) % Self::COUNT),
        }
    }

    /// The slot's number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

const TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 {
                (crc << 1) ^ 0x1021
            } else {
                crc << 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &b| {
        (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ b)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_agree_with_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(Slot::of(b"foo").get(), 12_182);
        assert_eq!(Slot::of(b"rl:{}:g").get(), 2_581);
        assert_eq!(Slot::of(b"rl:{}:r:eu").get(), 8_923);
        assert_eq!(Slot::of(b"a{foo}b"), Slot::of(b"foo"));
    }
}
