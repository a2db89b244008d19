// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@testable import ReloadWorkers

struct EgressPolicyTests {
    @Test(arguments: [
        "8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "169.253.0.1",
        "192.167.1.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ])
    func publicAddresses(text: String) throws {
        #expect(try #require(IPAddress(text)).isPublic)
        #expect(EgressPolicy().permits(try #require(IPAddress(text))))
    }

    @Test(arguments: [
        "0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254",
        "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.0.1", "198.18.0.1", "198.51.100.7",
        "203.0.113.9", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd12:3456::1",
        "ff02::1", "2001:db8::1", "2001::1", "100::1", "::127.0.0.1",
        // IPv4 addresses in other notations.
        "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:a9fe:a9fe", "64:ff9b::10.0.0.1", "2002:7f00:1::",
    ])
    func addressesThatAreNotPublic(text: String) throws {
        #expect(try !#require(IPAddress(text)).isPublic)
        #expect(EgressPolicy().permits(try #require(IPAddress(text))) == false)
    }

    @Test(arguments: ["", "localhost", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.4/8", "fe80::1%eth0", "[::1]", "::g"])
    func noAddress(text: String) {
        #expect(IPAddress(text) == nil)
    }

    @Test(arguments: [
        ("10.0.0.0/8", "10.200.3.4", true), ("10.0.0.0/8", "172.16.0.1", false), ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "10.1.2.4", false), ("10.0.0.0/9", "10.128.0.0", false), ("0.0.0.0/0", "127.0.0.1", true),
        ("0.0.0.0/0", "::1", false),
        ("127.0.0.0/8", "::ffff:127.0.0.1", true), ("fd00::/8", "fdff::1", true), ("fd00::/8", "fc00::1", false),
        ("fd00:0:0:1::/64", "fd00:0:0:1::9", true), ("fd00:0:0:1::/64", "fd00:0:0:2::9", false),
        ("fd00::1:0/112", "fd00::1:ffff", true), ("fd00::1:0/112", "fd00::2:0", false), ("::/0", "::1", true),
        ("::1", "::1", true), ("192.168.4.0/22", "192.168.7.255", true), ("192.168.4.0/22", "192.168.8.0", false),
    ])
    func blocks(pattern: String, address: String, isPermitted: Bool) throws {
        let policy = try EgressPolicy(allowing: [pattern])
        #expect(policy.permits(try #require(IPAddress(address))) == isPermitted)
    }

    @Test(arguments: [
        ("localhost", "localhost", 80, true), ("LocalHost", "localhost", 80, true),
        ("localhost", "localhost.evil", 80, false),
        ("localhost:8080", "localhost", 8_080, true), ("localhost:8080", "localhost", 80, false),
        ("*.internal", "provider.internal", 443, true), ("*.internal", "a.b.internal", 443, true),
        ("*.internal", "internal", 443, false), ("*.internal", "evilinternal", 443, false),
    ])
    func names(pattern: String, host: String, port: Int, isPermitted: Bool) throws {
        let policy = try EgressPolicy(allowing: [pattern])
        let addresses = [try #require(IPAddress("127.0.0.1"))]
        #expect(policy.permits(addresses, host: host, port: port) == isPermitted)
    }

    @Test func everyAddressOfAHostMustBePermitted() throws {
        let addresses = [try #require(IPAddress("8.8.8.8")), try #require(IPAddress("10.0.0.1"))]
        #expect(!EgressPolicy().permits(addresses, host: "rebinding.example", port: 443))
        #expect(EgressPolicy().permits([addresses[0]], host: "public.example", port: 443))
        #expect(!EgressPolicy().permits([], host: "nothing.example", port: 443))
    }

    @Test(arguments: [
        "", "10.0.0.0/33", "10.0.0.0/-1", "::1/129", "10.0.0.0/", "1.2.3", "*.", "a b", "host:port",
        "::ffff:10.0.0.0/104",
    ])
    func patternsThatCannotBeRead(pattern: String) {
        #expect(throws: ModelError.self) { try EgressPolicy(allowing: ["10.0.0.0/8", pattern]) }
    }
}
