import WidgetEvents
import WidgetModel
import WidgetStore

/// Folds the registrations of a batch into one write for each device. Pure, except for the random nonces of sealed tokens.
struct DeviceFold {
    private struct Key: Hashable {
        let user: ScopedIdentifier
        let device: ScopedIdentifier
    }

    /// A registration, or with a channel of nil its end.
    private struct Registration {
        let record: Int
        let app: RegisteredApp
        let user: String
        let device: String
        let channel: DeliveryChannel?
        var time: Timestamp
        let isOrderedByArrival: Bool
        var token: DeviceTokenKeys.Sealed?

        var key: Key { Key(user: ScopedIdentifier(app.id, user), device: ScopedIdentifier(app.id, device)) }

        /// Nil for an event that concerns no registration.
        init?(_ event: FoldedChange) {
            guard let user = event.user, case .device(let change) = event.change else { return nil }
            switch change {
            case .environment: return nil
            case .registered(_, let channel): self.channel = channel
            case .unregistered: channel = nil
            }
            (record, app, self.user, device) = (event.record, event.app, user, change.device)
            (time, isOrderedByArrival) = (event.time, event.handling.isOrderedByArrival)
        }
    }

    private var latest: [Key: Registration] = [:]
    /// Devices of each user that are registered after the events so far.
    private var registered: [ScopedIdentifier: Set<ScopedIdentifier>] = [:]
    private(set) var ignored: [IgnoredEvent] = []
    private(set) var rejected: [RejectedEvent] = []
    /// Keys that seal tokens; nil if tokens cannot be stored.
    private let keys: DeviceTokenKeys?
    private let rules: RegistrationRules

    /// - Parameters:
    ///   - registered: stored devices of the events' users.
    ///   - now: the database's time; no registration counts as later.
    init(
        _ changes: [FoldedChange], registered: [RegisteredDevice], now: Timestamp, sealing keys: DeviceTokenKeys?,
        rules: RegistrationRules
    ) {
        self.keys = keys
        self.rules = rules
        for device in registered {
            self.registered[ScopedIdentifier(device.appID, device.user), default: []].insert(
                ScopedIdentifier(device.appID, device.device))
        }
        for change in changes {
            guard var registration = Registration(change) else { continue }
            registration.time = min(registration.time, now)
            add(registration)
        }
    }

    /// Users whose stored devices the fold needs.
    static func users(of changes: [FoldedChange]) -> [(appID: Int32, user: String)] {
        var users: [ScopedIdentifier: (appID: Int32, user: String)] = [:]
        for change in changes {
            guard let registration = Registration(change) else { continue }
            users[registration.key.user] = (registration.app.id, registration.user)
        }
        return users.values.sorted { ($0.appID, $0.user) < ($1.appID, $1.user) }
    }

    private mutating func add(_ registration: Registration) {
        let key = registration.key
        if let earlier = latest[key], !registration.isOrderedByArrival, registration.time < earlier.time {
            ignored.append(IgnoredEvent(record: registration.record, reason: .older))
            return
        }
        guard let channel = registration.channel else {
            registered[key.user]?.remove(key.device)
            latest[key] = registration
            return
        }
        let devices = registered[key.user] ?? []
        guard devices.contains(key.device) || devices.count < rules.devicesPerUser else {
            return reject(
                registration, code: "tooManyDevices", pointer: "/device", message: rules.tooManyDevices)
        }
        var accepted = registration
        if case .apns(let address) = channel {
            if let problem = rules.problem(ofTopic: address.topic, app: registration.app.name) {
                return reject(
                    registration, code: "topicNotAllowed", pointer: "/channel/apns/topic", message: problem)
            }
            let owner = DeviceTokenKeys.Owner(
                appID: registration.app.id, user: registration.user, device: registration.device)
            accepted.token = try? keys?.seal(address.token, for: owner)
            guard accepted.token != nil else {
                return reject(
                    registration, code: "noTokenKey", pointer: "/channel",
                    message: "tokens of devices cannot be stored: ingest has no delivery.tokenKeys")
            }
        }
        registered[key.user, default: []].insert(key.device)
        latest[key] = accepted
    }

    private mutating func reject(
        _ registration: Registration, code: String, pointer: String, message: String
    ) {
        rejected.append(
            RejectedEvent(
                record: registration.record, app: registration.app.name, code: code, message: "\(pointer): \(message)",
                pointer: pointer))
    }

    var writes: [RegistrationWrite] {
        latest.values.map { registration in
            RegistrationWrite(
                appID: registration.app.id, user: registration.user, device: registration.device,
                time: registration.time, isOrderedByArrival: registration.isOrderedByArrival,
                channel: registration.channel, token: registration.token)
        }
    }

    /// Events whose writes the database has not taken, because a later event had already been applied.
    func older(written: [RegisteredDevice]) -> [IgnoredEvent] {
        let written = Set(
            written.map {
                Key(user: ScopedIdentifier($0.appID, $0.user), device: ScopedIdentifier($0.appID, $0.device))
            })
        return latest.filter { !written.contains($0.key) }.map { IgnoredEvent(record: $1.record, reason: .older) }
    }
}
