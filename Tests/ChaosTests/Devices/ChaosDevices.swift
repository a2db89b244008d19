// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import Foundation
import JSON
import NIOCore
import NIOHTTP1
import NIOPosix
import PostgresClient
import SampleProvider
import Synchronization
import TestSupport
import WidgetAPI
import WidgetEvents
import WidgetModel
import WidgetStore

/// A fault of the push service.
enum PushFault: String, CaseIterable, Sendable {
    case unavailable, tooManyRequests, hang, stall, trickle, reset, goAway, cut

    var fault: APNsStandIn.Fault {
        switch self {
        case .unavailable: .answer(APNsAnswer(status: 503, reason: "ServiceUnavailable"))
        case .tooManyRequests:
            .answer(APNsAnswer(status: 429, reason: "TooManyRequests", retryAfter: .seconds(1)))
        case .hang: .hang
        case .stall: .stall
        case .trickle: .trickle
        case .reset: .reset
        case .goAway: .goAway
        case .cut: .cut
        }
    }
}

/// Registered devices behind a push service with faults. After a push a device reads its widgets' content from the API
/// with its user's token, as an app does, and keeps it until the next push.
final class ChaosDevices: Sendable {
    /// Minimum time between two pushes to a device.
    static let window = Duration.milliseconds(500)
    static let count = 20
    static let app = "com.chaos.beta"
    private static let (teamID, keyID) = ("TEAM", "KEY")

    private struct State {
        var isFaulty: PushFault?
        var pushes = 0
        /// Pushes to a device within the window of the previous one.
        var tooSoon = 0
        var lastPush: [String: ContinuousClock.Instant] = [:]
        /// Devices with a push that they have not followed up.
        var pushed: Set<String> = []
        /// Number of devices that are reading.
        var reading = 0
        /// Revisions that a device shows, by widget.
        var shown: [String: [String: Int64]] = [:]
    }

    private let standIn: APNsStandIn
    private let state = Mutex(State())
    private let http = HTTPClient(eventLoopGroupProvider: .singleton)
    /// Port of the API, which it has again after each restart.
    private let port: Int
    /// Tokens of the devices' users, and the devices' widgets, by device.
    private let tokens: [String: String]
    private let widgets: [String: [String]]
    let settings: [String: String]

    init(in directory: RunDirectory, world: ChaosWorld) async throws {
        standIn = try await APNsStandIn.start(countsTokens: false)
        let privateKey = APNsStandIn.makeKey()
        try standIn.trust(privateKey, keyID: Self.keyID, teamID: Self.teamID)
        let key = directory.url.appendingPathComponent("key.p8")
        let roots = directory.url.appendingPathComponent("roots.pem")
        try Data(privateKey.utf8).write(to: key)
        try Data(standIn.certificatePEM.utf8).write(to: roots)
        let jwks: JSONValue = ["keys": [TokenKeys.makeKey(.hs256, id: "chaos")]]
        let keys = directory.url.appendingPathComponent("keys.json")
        try Data(jwks.encoded).write(to: keys)
        tokens = try await Self.makeTokens(jwks)
        widgets = Dictionary(
            grouping: world.widgets.map(\.placement).filter { $0.app == Self.app }, by: \.device
        ).mapValues { $0.map(\.widget) }
        port = try await FreePort.find()
        settings = [
            "FRESHET_API_KEYS": keys.path, "FRESHET_API_PORT": "\(port)", "FRESHET_API_RATE_LIMIT": "0",
            "FRESHET_DELIVERY_TOKEN_KEYS": "chaos=\(Data(repeating: 7, count: 32).base64EncodedString())",
            "FRESHET_DELIVERY_APNS_KEYS": "\(Self.app)=\(Self.teamID)/\(Self.keyID)/\(key.path)",
            "FRESHET_DELIVERY_APNS_URL": standIn.url, "FRESHET_DELIVERY_TRUST_ROOTS": roots.path,
            "FRESHET_DELIVERY_WINDOW": "\(Self.window.wholeMilliseconds)ms",
            "FRESHET_DELIVERY_MINIMUM_SPACING": "0s", "FRESHET_DELIVERY_PUSHES_PER_DAY": "100000",
            "FRESHET_DELIVERY_TIMEOUT": "2s", "FRESHET_DELIVERY_LEASE": "5s",
        ]
        standIn.set { [weak self] push in self?.receive(push) }
    }

    private static func device(_ index: Int) -> (user: String, device: String) { ("u\(index)", "u\(index)-d0") }

    private static func makeTokens(_ jwks: JSONValue) async throws -> [String: String] {
        let issuer = try await TokenKeys(jwks: jwks.encoded)
        var tokens: [String: String] = [:]
        for index in 0..<count {
            let (user, device) = device(index)
            tokens[device] = try await issuer.issue(
                app: app, user: user, scopes: [.widgetsRead], expiresAt: Timestamp.now() + .seconds(86_400))
        }
        return tokens
    }

    /// Events that register the devices.
    static var registrations: [(user: String, event: FreshetEvent)] {
        (0..<count).map { index in
            let (user, device) = device(index)
            return (user, registration(user: user, device: device))
        }
    }

    /// An event that registers a device. A device of somebody else than ``registrations`` never reads after a push.
    static func registration(user: String, device: String) -> FreshetEvent {
        let address = APNsAddress(
            token: Array(device.utf8) + Array(repeating: 0, count: 8), environment: .production,
            topic: app + APNsAddress.topicSuffix)
        return .deviceRegistered(
            app: app, user: user, device: device, channel: .apns(address))
    }

    /// Number of accepted pushes, and of those that came too soon.
    var pushes: (all: Int, tooSoon: Int) { state.withLock { ($0.pushes, $0.tooSoon) } }

    func set(_ fault: PushFault?) { state.withLock { $0.isFaulty = fault } }

    private func receive(_ push: APNsStandIn.Push) -> APNsStandIn.Fault? {
        let bytes = ([UInt8](hexadecimal: push.token) ?? []).prefix { $0 != 0 }
        let device = String(decoding: bytes, as: UTF8.self)
        return state.withLock { state in
            if let fault = state.isFaulty { return fault.fault }
            let now = ContinuousClock.now
            if let last = state.lastPush[device], now - last < Self.window { state.tooSoon += 1 }
            state.lastPush[device] = now
            state.pushes += 1
            if tokens[device] != nil { state.pushed.insert(device) }
            return nil
        }
    }

    // MARK: Reads

    /// Lets devices with a push read their widgets from the API until cancelled; a device retries when it gets no
    /// answer.
    func fetch() async {
        await withDiscardingTaskGroup { group in
            while !Task.isCancelled {
                let devices = state.withLock { state in
                    defer { (state.reading, state.pushed) = (state.reading + state.pushed.count, []) }
                    return state.pushed
                }
                for device in devices { group.addTask { await self.read(device) } }
                try? await Task.sleep(for: .milliseconds(20))
            }
        }
    }

    /// Whether every device has followed up its pushes.
    var areIdle: Bool { state.withLock { $0.pushed.isEmpty && $0.reading == 0 } }

    private func read(_ device: String) async {
        var revisions: [String: Int64]?
        do {
            revisions = try await shown(by: device)
        } catch {
            try? await Task.sleep(for: .milliseconds(200))
        }
        state.withLock { state in
            state.reading -= 1
            guard let revisions else {
                state.pushed.insert(device)
                return
            }
            state.shown[device, default: [:]].merge(revisions) { max($0, $1) }
        }
    }

    /// Revisions that the API serves for a device's widgets.
    private func shown(by device: String) async throws -> [String: Int64] {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/v1/apps/\(Self.app)/timelines")
        request.method = .POST
        request.headers = ["authorization": "Bearer \(tokens[device] ?? "")", "content-type": "application/json"]
        let body: JSONValue = ["widgets": .array((widgets[device] ?? []).map { .string($0) })]
        request.body = .bytes(ByteBuffer(bytes: body.encoded))
        let response = try await http.execute(request, timeout: .seconds(3))
        let answer = try await response.body.collect(upTo: 1 << 22)
        guard response.status == .ok else { throw Unanswered(status: response.status.code) }
        var revisions: [String: Int64] = [:]
        for result in try JSONValue.parse(Array(answer.readableBytesView))["results"]?.arrayValue ?? [] {
            guard let widget = result["widget"]?.stringValue else { continue }
            revisions[widget] = result["timeline"]?["revision"]?.numberValue?.int64 ?? 0
        }
        return revisions
    }

    private struct Unanswered: Error {
        let status: UInt
    }

    // MARK: Checks

    /// Devices that have not read the latest content, and those whose recorded fetches they have not made, when all
    /// work is done.
    func findings(in pool: PostgresPool) async throws -> [String] {
        let rows = try await pool.query(DisplayedRevisions(devices: Array(tokens.keys)))
        guard rows.contains(where: { $0.fetched > 0 }) else { return ["no fetch of any device is recorded"] }
        return state.withLock { state in
            rows.flatMap { row in
                let shown = state.shown[row.device]?[row.widget] ?? 0
                var findings: [String] = []
                if shown < row.revision {
                    findings.append(
                        "device \(row.device) shows revision \(shown) in \(row.widget), stored is \(row.revision)")
                }
                if shown < row.fetched {
                    findings.append(
                        "device \(row.device) has read revision \(shown) in \(row.widget), recorded is \(row.fetched)")
                }
                return findings
            }
        }
    }

    func stop() async throws {
        try await http.shutdown()
        try await standIn.stop()
    }
}

/// Revisions of the content that devices' widgets show, and those that the devices are known to have fetched.
struct DisplayedRevisions: PostgresStatement {
    struct Row: Sendable {
        let device: String
        let widget: String
        let revision: Int64
        let fetched: Int64
    }

    let sql = """
        SELECT w.device_id, w.id, t.content_revision,
               coalesce(r.fetched_revisions[array_position(r.fetched_timelines, t.id)], 0) AS fetched
        FROM app a JOIN widget w ON w.app_id = a.id AND w.device_id = ANY ($1::text[])
        JOIN timeline t ON t.id = w.timeline_id
        LEFT JOIN registration r ON r.app_id = a.id AND r.user_id = w.user_id AND r.device_id = w.device_id
        WHERE a.name = '\(ChaosDevices.app)'
        """

    let devices: [String]

    var parameters: PostgresParameters { PostgresParameters(PostgresArray(devices)) }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            device: try row.value("device_id"), widget: try row.value("id"),
            revision: try row.value("content_revision"), fetched: try row.value("fetched"))
    }
}
