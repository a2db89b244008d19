// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import FreshetService
import JSON
import Logging
import NIOCore
import NIOHTTP1
import SampleProvider
import Synchronization
import WidgetAPI
import WidgetModel

/// The devices of the demo: a device that was notified of changes fetches the timelines of its widgets, as apps do.
final class DemoDevices: Sendable {
    private static let interval = Duration.milliseconds(250)
    private static let concurrency = 8

    private let world: DemoWorld
    private let apns: APNsStandIn
    private let keys: TokenKeys
    private let rules: TokenRules
    private let logger: Logger
    private let counts = Mutex((devices: Set<Int>(), fetches: 0))

    init(world: DemoWorld, apns: APNsStandIn, keys: TokenKeys, rules: TokenRules, logger: Logger) {
        self.world = world
        self.apns = apns
        self.keys = keys
        self.rules = rules
        self.logger = logger
    }

    /// Number of devices that have fetched, and of their requests that were answered.
    var fetched: (devices: Int, fetches: Int) { counts.withLock { ($0.devices.count, $0.fetches) } }

    /// Token of a person's device at the stand-in for Apple's push service.
    static func token(of person: Int) -> [UInt8] { Array("demo\(10_000_000 + person)".utf8) }

    /// Fetches for each push until the task is cancelled.
    ///
    /// - Parameter api: address of the API.
    func run(api: String) async throws {
        var answered: [String: Int] = [:]
        while true {
            let pushes = apns.statistics.byToken
            let notified = pushes.filter { answered[$0.key] != $0.value }.keys.compactMap(Self.person)
            answered = pushes
            for start in stride(from: 0, to: notified.count, by: Self.concurrency) {
                await withTaskGroup(of: Void.self) { group in
                    for person in notified[start..<min(start + Self.concurrency, notified.count)] {
                        group.addTask { [self] in await fetch(for: person, api) }
                    }
                }
            }
            try await Task.sleep(for: Self.interval)
        }
    }

    /// The person of a device's token, in hexadecimal digits.
    private static func person(_ token: String) -> Int? {
        let digits = Array(token.utf8)
        let bytes = stride(from: 0, to: digits.count - 1, by: 2).compactMap { index in
            UInt8(String(decoding: digits[index...(index + 1)], as: UTF8.self), radix: 16)
        }
        let text = String(decoding: bytes, as: UTF8.self)
        guard text.hasPrefix("demo"), let number = Int(text.dropFirst(4)) else { return nil }
        return number - 10_000_000
    }

    private func fetch(for person: Int, _ api: String) async {
        let app = world.deviceApp
        let widgets = world.widgets(of: person).map(world.placement).filter { $0.app == app }.map(\.widget)
        do {
            let token = try await keys.issue(
                app: app, user: world.user(person), scopes: [.widgetsRead], subject: "d\(person)",
                issuer: rules.issuer, audience: rules.audience, expiresAt: Timestamp.now() + .seconds(60))
            var request = HTTPClientRequest(url: "\(api)/v1/apps/\(app)/timelines")
            request.method = .POST
            request.headers = ["authorization": "Bearer \(token)", "content-type": "application/json"]
            request.body = .bytes(
                ByteBuffer(bytes: JSONValue.object(["widgets": .array(widgets.map { .string($0) })]).encoded))
            let response = try await HTTPClient.shared.execute(request, timeout: .seconds(10))
            // The body is read, so that the connection can be used again.
            _ = try await response.body.collect(upTo: 8 << 20)
            guard response.status == .ok else {
                logger.warning("a device was refused", metadata: ["status": "\(response.status.code)"])
                return
            }
            counts.withLock {
                $0.devices.insert(person)
                $0.fetches += 1
            }
        } catch {
            // It fetches again at the next push.
            logger.debug("a device could not fetch", metadata: ["error": "\(error)"])
        }
    }
}
