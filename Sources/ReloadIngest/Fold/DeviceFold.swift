import WidgetModel
import WidgetStore

/// An event that registers a device or ends its registration.
struct DeviceStep: Sendable {
    let record: Int
    let app: RegisteredApp
    let user: String
    let device: String
    /// Channel of the device; nil ends the registration.
    let channel: DeliveryChannel?
    var time: Timestamp
    let isOrderedByArrival: Bool
}

/// Folds a batch's steps into one write for each device. Pure, except for the random nonces of sealed tokens.
struct DeviceFold {
    private struct Key: Hashable {
        let user: ScopedIdentifier
        let device: ScopedIdentifier
    }

    private var latest: [Key: (step: DeviceStep, token: DeviceTokenKeys.Sealed?)] = [:]
    /// Devices of each user that are registered after the steps so far.
    private var registered: [ScopedIdentifier: Set<ScopedIdentifier>] = [:]
    private(set) var ignored: [IgnoredEvent] = []
    private(set) var rejected: [RejectedEvent] = []
    /// Keys that seal tokens; nil if tokens cannot be stored.
    private let keys: DeviceTokenKeys?
    private let rules: RegistrationRules

    /// - Parameters:
    ///   - registered: stored devices of the steps' users.
    ///   - now: the database's time; no registration counts as later.
    init(
        _ steps: [DeviceStep], registered: [RegisteredDevice], now: Timestamp, sealing keys: DeviceTokenKeys?,
        rules: RegistrationRules
    ) {
        self.keys = keys
        self.rules = rules
        for device in registered {
            self.registered[ScopedIdentifier(device.appID, device.user), default: []].insert(
                ScopedIdentifier(device.appID, device.device))
        }
        for var step in steps {
            step.time = min(step.time, now)
            add(step)
        }
    }

    /// Users whose stored devices the fold needs.
    static func users(of steps: [DeviceStep]) -> [(appID: Int32, user: String)] {
        let users = Dictionary(
            steps.map { (ScopedIdentifier($0.app.id, $0.user), (appID: $0.app.id, user: $0.user)) },
            uniquingKeysWith: { first, _ in first })
        return users.values.sorted { ($0.appID, $0.user) < ($1.appID, $1.user) }
    }

    private mutating func add(_ step: DeviceStep) {
        let key = Key(
            user: ScopedIdentifier(step.app.id, step.user), device: ScopedIdentifier(step.app.id, step.device))
        if let earlier = latest[key]?.step, !step.isOrderedByArrival, step.time < earlier.time {
            ignored.append(IgnoredEvent(record: step.record, reason: .older))
            return
        }
        guard let channel = step.channel else {
            registered[key.user]?.remove(key.device)
            latest[key] = (step, nil)
            return
        }
        let devices = registered[key.user] ?? []
        guard devices.contains(key.device) || devices.count < rules.devicesPerUser else {
            return reject(step, "tooManyDevices", "/device", rules.tooManyDevices)
        }
        guard case .apns(let address) = channel else {
            return accept(step, nil, key)
        }
        if let problem = rules.problem(ofTopic: address.topic, app: step.app.name) {
            return reject(step, "topicNotAllowed", "/channel/apns/topic", problem)
        }
        let owner = DeviceTokenKeys.Owner(appID: step.app.id, user: step.user, device: step.device)
        guard let sealed = try? keys?.seal(address.token, for: owner) else {
            return reject(
                step, "noTokenKey", "/channel",
                "tokens of devices cannot be stored: ingest has no delivery.tokenKeys")
        }
        accept(step, sealed, key)
    }

    private mutating func accept(_ step: DeviceStep, _ token: DeviceTokenKeys.Sealed?, _ key: Key) {
        registered[key.user, default: []].insert(key.device)
        latest[key] = (step, token)
    }

    private mutating func reject(_ step: DeviceStep, _ code: String, _ pointer: String, _ message: String) {
        rejected.append(
            RejectedEvent(
                record: step.record, app: step.app.name, code: code, message: "\(pointer): \(message)",
                pointer: pointer))
    }

    var writes: [RegistrationWrite] {
        latest.values.map { step, token in
            RegistrationWrite(
                appID: step.app.id, user: step.user, device: step.device, time: step.time,
                isOrderedByArrival: step.isOrderedByArrival, channel: step.channel, token: token)
        }
    }

    /// Events whose writes the database has not taken, because a later event had already been applied.
    func older(written: [RegisteredDevice]) -> [IgnoredEvent] {
        let written = Set(
            written.map {
                Key(user: ScopedIdentifier($0.appID, $0.user), device: ScopedIdentifier($0.appID, $0.device))
            })
        return latest.filter { !written.contains($0.key) }.map { IgnoredEvent(record: $1.step.record, reason: .older) }
    }
}
