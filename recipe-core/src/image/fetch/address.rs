//! Which addresses belong to the public internet. Knows no names and no requests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 networks that are not public, by the registry of special addresses of IANA (RFC 6890), each with the length
/// of its prefix. Services of clouds are in 169.254.0.0/16 and 100.64.0.0/10.
const INTERNAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 3), // Multicast, reserved and broadcast.
    // Public by its number, but in Azure it is the host of a machine.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// The IPv6 networks inside 2000::/3 that are not public: special protocols, documentation, IPv4 in disguise.
const INTERNAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3FFF, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether an address is one of the public internet: not of this machine, of a private or a link's network, of
/// several machines, of a cloud's services, or of a special use.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !INTERNAL_V4.iter().any(|(network, length)| (address.to_bits() ^ network.to_bits()) >> (32 - length) == 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // IPv4 in IPv6 (RFC 4291), and through a translator (RFC 6052): the machine behind it counts.
        [0, 0, 0, 0, 0, 0xFFFF, high, low] | [0x64, 0xFF9B, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        [first, ..] => {
            let within =
                |(network, length): &(Ipv6Addr, u32)| (address.to_bits() ^ network.to_bits()) >> (128 - length) == 0;
            first >> 13 == 0b001 && !INTERNAL_V6.iter().any(within)
        }
    }
}
