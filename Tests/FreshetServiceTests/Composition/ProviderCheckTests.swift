// SPDX-License-Identifier: Apache-2.0

import Dispatch
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService
@testable import ReloadWorkers

@Suite(.timeLimit(.patience))
struct ProviderCheckTests {
    private static let reason =
        "the host has an address that is not public, and providers.allowPrivateNetworks "
        + "does not list it"

    private func settings(allowing: [String] = []) -> ProviderSettings {
        var settings = ProviderSettings()
        settings.allowPrivateNetworks = allowing
        return settings
    }

    private func problem(
        _ url: ProviderURL, allowing: [String] = [], _ addresses: [String] = []
    ) async -> String? {
        let known = addresses.compactMap { IPAddress($0) }
        return await settings(allowing: allowing).problem(
            of: url,
            resolver: HostResolver { host throws(IPAddress.LookupFailure) in
                if host.contains(".example") { return known }
                return try IPAddress.addresses(of: host)
            }, patience: Patience.limit)
    }

    private func url(_ address: String) throws -> ProviderURL {
        try ProviderURL("http://" + (address.contains(":") ? "[\(address)]" : address) + "/x")
    }

    /// First and last addresses of every block that is not public, and of blocks that embed IPv4 addresses.
    private static let special = [
        "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.0",
        "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255",
        "192.0.0.0", "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.0", "192.88.99.255", "192.168.0.0",
        "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255", "203.0.113.0",
        "203.0.113.255", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255",
        "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::10.0.0.1",
        "64:ff9b:1::1", "100::", "100::ffff", "1fff:ffff::", "2001::", "2001:1ff::1", "2001:db8::",
        "2001:db8:ffff:ffff::", "2002:7f00:1::", "2002:a9fe:a9fe::", "2002:c0a8:1::", "3fff::", "3fff:fff::1", "4000::",
        "5f00::1", "fc00::", "fdff::1", "fe80::", "febf::1", "fec0::1", "ff00::", "ff02::1", "ffff::1",
    ]

    /// Addresses next to those blocks.
    private static let open = [
        "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.1.255", "192.0.3.0",
        "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
        "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8", "2000::1", "2001:200::1", "2001:db7::1", "2001:db9::1", "2002:808:808::1", "2003::1",
        "2606:4700::1111", "3ffe::1",
    ]

    @Test("An address that is not public is refused, written out or as any of a host's addresses", arguments: special)
    func refused(address: String) async throws {
        #expect(await problem(try url(address)) == Self.reason)
        let name = try ProviderURL("https://widgets.example/x")
        for addresses in [[address], ["8.8.8.8", address], [address, "2606:4700::1111"]] {
            #expect(await problem(name, addresses) == Self.reason, "\(addresses)")
        }
    }

    @Test("A public address is accepted, written out or as a host's address", arguments: open)
    func accepted(address: String) async throws {
        #expect(await problem(try url(address)) == nil)
        #expect(await problem(try ProviderURL("https://widgets.example/x"), [address, "8.8.8.8"]) == nil)
    }

    @Test("localhost is refused in every notation")
    func localhost() async throws {
        for host in ["localhost", "LOCALHOST"] {
            #expect(await problem(try ProviderURL("http://\(host)/x")) == Self.reason, "\(host)")
        }
    }

    @Test("Only addresses that the operator lists are accepted in addition")
    func listed() async throws {
        #expect(await problem(try url("10.9.9.9"), allowing: ["10.0.0.0/8"]) == nil)
        #expect(await problem(try url("11.0.0.0"), allowing: ["10.0.0.0/8"]) == nil)
        #expect(await problem(try url("127.0.0.1"), allowing: ["10.0.0.0/8"]) == Self.reason)
        let name = try ProviderURL("http://a.example:8080/x")
        #expect(await problem(name, allowing: ["a.example:8080"], ["10.0.0.1"]) == nil)
        #expect(await problem(name, allowing: ["a.example:80"], ["10.0.0.1"]) == Self.reason)
        #expect(await problem(name, allowing: ["10.0.0.0/8"], ["10.0.0.1", "127.0.0.1"]) == Self.reason)
        #expect(await problem(try url("127.0.0.1"), allowing: ["no pattern"]) == Self.reason)
    }

    @Test("A host that cannot be resolved in time is left to the workers")
    func unknown() async throws {
        #expect(await problem(try ProviderURL("https://a.example/x")) == nil)
        let failing = HostResolver { _ throws(IPAddress.LookupFailure) in throw IPAddress.LookupFailure(message: "no") }
        let name = try ProviderURL("https://b.test/x")
        #expect(await ProviderSettings().problem(of: name, resolver: failing) == nil)
        let gate = DispatchSemaphore(value: 0)
        let hanging = HostResolver { _ in
            gate.wait()
            return []
        }
        let slow = await ProviderSettings().problem(of: name, resolver: hanging, patience: .milliseconds(1))
        #expect(slow == nil)
        gate.signal()
    }

    @Test("All forbidden providers of a manifest are reported")
    func manifest() async throws {
        func kind(_ name: String, _ url: String) -> KindDefinition {
            KindDefinition(
                name: name, displayName: name, description: "", families: [.systemSmall], providerURL: url,
                placeholder: .object(JSONObject()))
        }
        let kinds = [kind("A", "http://10.0.0.1/x"), kind("B", "https://8.8.8.8/x"), kind("C", "http://[::1]/x")]
        let apps = [AppDefinition(name: "com.example.bank", kinds: kinds)]
        let error = try await #require(throws: ManifestError.self) { try await settings().check(apps, file: "f.yaml") }
        #expect(
            error.problems.map(\.description) == [
                "f.yaml: com.example.bank: kind A: provider.url: http://10.0.0.1/x: \(Self.reason)",
                "f.yaml: com.example.bank: kind C: provider.url: http://[::1]/x: \(Self.reason)",
            ])
        try await settings(allowing: ["10.0.0.1", "::1"]).check(apps, file: "f.yaml")
    }
}
