// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import WidgetAPI

@Suite("Addresses to listen on")
struct ListeningHostTests {
    @Test(
        "All addresses are those of IPv4 on a system without IPv6",
        arguments: [
            ("::", true, "::"), ("::", false, "0.0.0.0"), ("::1", false, "::1"), ("127.0.0.1", true, "127.0.0.1"),
        ])
    func bindable(_ host: String, _ hasIPv6: Bool, _ bound: String) {
        #expect(bindableHost(host, hasIPv6: hasIPv6) == bound)
    }
}
