import Foundation
import PostgresClient
import SampleProvider
import Synchronization
import WidgetEvents
import WidgetModel
import WidgetStore

/// A fault of the push service.
enum PushFault: String, CaseIterable, Sendable {
    case unavailable, tooManyRequests, hang, stall, reset, goAway, cut

    var fault: APNsStandIn.Fault {
        switch self {
        case .unavailable: .answer(APNsAnswer(status: 503, reason: "ServiceUnavailable"))
        case .tooManyRequests:
            .answer(APNsAnswer(status: 429, reason: "TooManyRequests", retryAfter: .seconds(1)))
        case .hang: .hang
        case .stall: .stall
        case .reset: .reset
        case .goAway: .goAway
        case .cut: .cut
        }
    }
}

/// Registered devices behind a push service with faults. After a push a device reads its widgets' content, as an app
/// does, and keeps it until the next push.
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
        /// Revisions of the timelines that a device shows.
        var shown: [String: [TimelineID: Int64]] = [:]
    }

    private let standIn: APNsStandIn
    private let state = Mutex(State())
    let settings: [String: String]

    init(in directory: RunDirectory) async throws {
        standIn = try await APNsStandIn.start(countsTokens: false)
        let privateKey = APNsStandIn.makeKey()
        try standIn.trust(privateKey, keyID: Self.keyID, teamID: Self.teamID)
        let key = directory.url.appendingPathComponent("key.p8")
        let roots = directory.url.appendingPathComponent("roots.pem")
        try Data(privateKey.utf8).write(to: key)
        try Data(standIn.certificatePEM.utf8).write(to: roots)
        settings = [
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

    /// Events that register the devices.
    static var registrations: [(user: String, event: FreshetEvent)] {
        (0..<count).map { index in
            let (user, device) = device(index)
            let address = APNsAddress(
                token: Array(device.utf8) + Array(repeating: 0, count: 8), environment: .production,
                topic: app + APNsAddress.topicSuffix)
            let registration = DeviceRegistration(user: user, device: device, channel: .apns(address))
            return (user, .deviceRegistered(app: app, registration))
        }
    }

    /// Number of accepted pushes, and of those that came too soon.
    var pushes: (all: Int, tooSoon: Int) { state.withLock { ($0.pushes, $0.tooSoon) } }

    func set(_ fault: PushFault?) { state.withLock { $0.isFaulty = fault } }

    private func receive(_ push: APNsStandIn.Push) -> APNsStandIn.Fault? {
        let bytes = (Hex.bytes(push.token) ?? []).prefix { $0 != 0 }
        let device = String(decoding: bytes, as: UTF8.self)
        return state.withLock { state in
            if let fault = state.isFaulty { return fault.fault }
            let now = ContinuousClock.now
            if let last = state.lastPush[device], now - last < Self.window { state.tooSoon += 1 }
            state.lastPush[device] = now
            state.pushes += 1
            state.pushed.insert(device)
            return nil
        }
    }

    /// Lets devices with a push read their widgets until cancelled; a device retries when the database does not answer.
    func fetch(from pool: PostgresPool) async {
        while !Task.isCancelled {
            let devices = state.withLock { state in
                defer { state.pushed = [] }
                return state.pushed
            }
            if !devices.isEmpty {
                do {
                    let rows = try await pool.query(DisplayedRevisions(devices: Array(devices)))
                    let byDevice = Dictionary(grouping: rows, by: \.device)
                    state.withLock { state in
                        for device in devices {
                            let timelines = (byDevice[device] ?? []).map { ($0.timeline, $0.revision) }
                            state.shown[device] = Dictionary(timelines) { max($0, $1) }
                        }
                    }
                } catch {
                    state.withLock { $0.pushed.formUnion(devices) }
                }
            }
            try? await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Devices without a push for the latest content, when all work is done.
    func outdated(in pool: PostgresPool) async throws -> [String] {
        let names = (0..<Self.count).map { Self.device($0).device }
        let rows = try await pool.query(DisplayedRevisions(devices: names))
        return state.withLock { state in
            rows.compactMap { row in
                let shown = state.shown[row.device]?[row.timeline] ?? 0
                guard shown < row.revision else { return nil }
                return "device \(row.device) shows revision \(shown) of \(row.timeline), stored is \(row.revision)"
            }
        }
    }

    func stop() async throws { try await standIn.stop() }
}

/// Revisions of the timelines that devices' widgets show.
struct DisplayedRevisions: PostgresStatement {
    struct Row: Sendable {
        let device: String
        let timeline: TimelineID
        let revision: Int64
    }

    let sql = """
        SELECT w.device_id, t.identity, t.content_revision FROM app a
        JOIN widget w ON w.app_id = a.id AND w.device_id = ANY ($1::text[]) JOIN timeline t ON t.id = w.timeline_id
        WHERE a.name = '\(ChaosDevices.app)'
        """

    let devices: [String]

    var parameters: PostgresParameters { PostgresParameters(array: devices) }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            device: try row.value("device_id"), timeline: try row.value("identity"),
            revision: try row.value("content_revision"))
    }
}
