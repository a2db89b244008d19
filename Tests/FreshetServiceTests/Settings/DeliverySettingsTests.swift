// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetAPI
import WidgetDelivery
import WidgetModel

@testable import FreshetService

@Suite("Settings of the delivery")
struct DeliverySettingsTests {
    private static let apple = "https://api.push.apple.com"

    @Test(
        "The sandbox's server is Apple's beside Apple's, with the same port, and a stand-in's beside a stand-in",
        arguments: [
            (nil, nil, apple, "https://api.sandbox.push.apple.com"),
            ("\(apple):2197", nil, "\(apple):2197", "https://api.sandbox.push.apple.com:2197"),
            ("https://API.push.apple.com", nil, "https://API.push.apple.com", "https://api.sandbox.push.apple.com:443"),
            ("https://localhost:1", nil, "https://localhost:1", "https://localhost:1"),
            ("\(apple):2197", "https://localhost:2", "\(apple):2197", "https://localhost:2"),
            (nil, "https://localhost:2", apple, "https://localhost:2"),
        ])
    func servers(_ url: String?, _ sandboxURL: String?, _ production: String, _ sandbox: String) throws {
        var settings = Settings()
        (settings.delivery.apnsURL, settings.delivery.apnsSandboxURL) = (url, sandboxURL)
        let urls = try settings.deliveryConfiguration().apnsURLs
        #expect(urls[.production] == production && urls[.sandbox] == sandbox)
    }

    @Test(
        "Variables of a proxy are a problem unless everything is exempt",
        arguments: [
            ([:], nil), (["HTTPS_PROXY": "http://p:1"], "HTTPS_PROXY"), (["https_proxy": "http://p:1"], "https_proxy"),
            (["ALL_PROXY": "socks5://p:1", "NO_PROXY": "localhost"], "ALL_PROXY"),
            (["HTTP_PROXY": "http://p:1", "no_proxy": "*"], nil), (["HTTPS_PROXY": "", "NO_PROXY": "x"], nil),
        ] as [([String: String], String?)])
    func proxies(_ environment: [String: String], _ named: String?) {
        let problem = Settings.proxyProblem(in: environment)
        #expect(problem.map { named.map($0.contains) ?? false } ?? (named == nil))
    }

    @Test("The idle time of the API's connections is a setting")
    func idleTime() throws {
        let settings = try LoadedSettings(
            flags: ["api.idleTimeout": "11m"], configurationFile: nil, environment: [:]
        ).checked().settings
        #expect(settings.api.times.idle == .seconds(660))
    }
}
