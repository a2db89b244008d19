// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.provider), .timeLimit(.patience))
struct ProviderURLTests {
    @Test(arguments: [
        ("http://provider", "provider", 80, "", "http://provider"),
        ("https://Bank.Example/", "bank.example", 443, "", "https://bank.example"),
        (
            "HTTPS://bank.example:8443/freshet/v1/", "bank.example", 8443, "/freshet/v1",
            "https://bank.example:8443/freshet/v1"
        ),
        ("http://127.0.0.1:80", "127.0.0.1", 80, "", "http://127.0.0.1"),
        ("http://[::1]:9000/x", "::1", 9000, "/x", "http://[::1]:9000/x"),
        ("http://[2001:DB8::192.0.2.1]", "2001:db8::192.0.2.1", 80, "", "http://[2001:db8::192.0.2.1]"),
        ("http://[1:2:3:4:5:6:7:8]/", "1:2:3:4:5:6:7:8", 80, "", "http://[1:2:3:4:5:6:7:8]"),
        ("http://a-b_c.example.:1/%41~x", "a-b_c.example.", 1, "/%41~x", "http://a-b_c.example.:1/%41~x"),
        ("http://xn--bcher-kva.example", "xn--bcher-kva.example", 80, "", "http://xn--bcher-kva.example"),
    ])
    func valid(text: String, host: String, port: Int, path: String, normal: String) throws {
        let url = try ProviderURL(text)
        #expect(url.host == host && url.port == port && url.path == path)
        #expect(url.description == normal)
        #expect(url.appending("/timelines") == normal + "/timelines")
        #expect(url.isIPv6 == text.contains("["))
        #expect(try ProviderURL(normal) == url)
    }

    @Test(arguments: [
        ("", "expected an http or https URL"), ("provider", "expected an http or https URL"),
        ("//provider", "expected an http or https URL"), ("ftp://provider", "expected an http or https URL"),
        ("http:/provider", "expected an http or https URL"), ("http://", "invalid host"), ("http:///x", "invalid host"),
        ("http://u@provider", "user information"), ("http://u:p@provider/", "user information"),
        ("http://provider?q=1", "query"), ("http://provider/x?", "query"), ("http://provider/#f", "fragment"),
        ("http://provider:0", "port"), ("http://provider:65536", "port"), ("http://provider:", "port"),
        ("http://provider:8o", "port"), ("http://provider:+80", "port"), ("http://provider:80:80", "port"),
        ("http://pro vider", "percent-encoded"), ("http://provider/a b", "percent-encoded"),
        ("http://provider\\@evil", "percent-encoded"), ("http://provider/\n", "percent-encoded"),
        ("http://bücher.example", "percent-encoded"), ("http://a%2eb", "invalid host"), ("http://-a", "invalid host"),
        ("http://a..b", "invalid host"), ("http://.", "invalid host"), ("http://256.1.1.1", "invalid host"),
        ("http://127.1", "invalid host"), ("http://2130706433", "invalid host"), ("http://0x7f000001", "invalid host"),
        ("http://0x", "invalid host"), ("http://0177.0.0.1", "invalid host"), ("http://1.2.3.4.", "invalid host"),
        ("http://[::1", "IPv6"), ("http://[]", "IPv6"), ("http://[1::2::3]", "IPv6"),
        ("http://[fe80::1%25eth0]", "IPv6"),
        ("http://[1:2:3]", "IPv6"), ("http://[1:2:3:4:5:6:7:8:9]", "IPv6"), ("http://[12345::]", "IPv6"),
        ("http://[::1]x", "IPv6"), ("http://[::256.0.0.1]", "IPv6"), ("http://[:1:2:3:4:5:6:7]", "IPv6"),
        ("http://provider/a/../b", "dot segments"), ("http://provider/.", "dot segments"),
        ("http://provider/%2E%2e/b", "dot segments"), ("http://provider//x", "empty segment"),
    ])
    func refused(text: String, message: String) {
        #expect {
            try ProviderURL(text)
        } throws: { error in
            (error as? ModelError)?.message.contains(message) == true
        }
    }

    @Test func length() throws {
        #expect(throws: ModelError(message: "URL longer than 2048 bytes")) {
            try ProviderURL("http://provider/" + String(repeating: "x", count: 2048))
        }
        #expect(throws: ModelError.self) { try ProviderURL("http://" + String(repeating: "a", count: 64)) }
        #expect(throws: ModelError.self) { try ProviderURL("http://" + String(repeating: "a.", count: 130)) }
    }
}
