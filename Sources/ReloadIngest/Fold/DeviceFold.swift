// SPDX-License-Identifier: Apache-2.0

import WidgetEvents
import WidgetModel
import WidgetStore

/// Folds the registrations of a batch into one write for each device. Pure, except for the random nonces of sealed
/// tokens.
struct DeviceFold {
    /// The last registration of each user and device, with its record.
    private var latest: [ScopedIdentifier: [ScopedIdentifier: (record: Int, write: RegistrationWrite)]] = [:]
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
        for change in changes { add(change, now) }
    }

    /// User, device and channel of a registration, or with a channel of nil its end; nil for other events.
    private static func registration(
        _ event: FoldedChange
    ) -> (user: String, device: String, channel: DeliveryChannel?)? {
        guard let user = event.user, case .device(let change) = event.change else { return nil }
        switch change {
        case .environment: return nil
        case .registered(let device, let channel): return (user, device, channel)
        case .unregistered(let device): return (user, device, nil)
        }
    }

    /// Users whose stored devices the fold needs.
    static func users(of changes: [FoldedChange]) -> [(appID: Int32, user: String)] {
        var users: [ScopedIdentifier: (appID: Int32, user: String)] = [:]
        for change in changes {
            guard let user = registration(change)?.user else { continue }
            users[ScopedIdentifier(change.app.id, user)] = (change.app.id, user)
        }
        return users.values.sorted { ($0.appID, $0.user) < ($1.appID, $1.user) }
    }

    private mutating func add(_ event: FoldedChange, _ now: Timestamp) {
        guard let (user, device, channel) = Self.registration(event) else { return }
        let (userKey, deviceKey) = (ScopedIdentifier(event.app.id, user), ScopedIdentifier(event.app.id, device))
        let (time, isOrderedByArrival) = (min(event.time, now), event.handling.isOrderedByArrival)
        if let earlier = latest[userKey]?[deviceKey], !isOrderedByArrival, time < earlier.write.time {
            ignored.append(IgnoredEvent(record: event.record, reason: .older))
            return
        }
        var token: DeviceTokenKeys.Sealed?
        if let channel {
            let devices = registered[userKey] ?? []
            guard devices.contains(deviceKey) || devices.count < rules.devicesPerUser else {
                return reject(event, code: "tooManyDevices", pointer: "/device", message: rules.tooManyDevices)
            }
            if case .apns(let address) = channel {
                if let problem = rules.problem(ofTopic: address.topic, app: event.app.name) {
                    return reject(event, code: "topicNotAllowed", pointer: "/channel/apns/topic", message: problem)
                }
                let owner = DeviceTokenKeys.Owner(appID: event.app.id, user: user, device: device)
                token = try? keys?.seal(address.token, for: owner)
                guard token != nil else {
                    return reject(
                        event, code: "noTokenKey", pointer: "/channel",
                        message: "tokens of devices cannot be stored: ingest has no delivery.tokenKeys")
                }
            }
            registered[userKey, default: []].insert(deviceKey)
        } else {
            registered[userKey]?.remove(deviceKey)
        }
        let write = RegistrationWrite(
            appID: event.app.id, user: user, device: device, time: time, isOrderedByArrival: isOrderedByArrival,
            channel: channel, token: token)
        latest[userKey, default: [:]][deviceKey] = (event.record, write)
    }

    private mutating func reject(_ event: FoldedChange, code: String, pointer: String, message: String) {
        rejected.append(
            RejectedEvent(
                record: event.record, app: event.app.name, code: code, message: "\(pointer): \(message)",
                pointer: pointer))
    }

    var writes: [RegistrationWrite] { latest.values.flatMap { $0.values.map(\.write) } }

    /// Events whose writes the database has not taken, because a later event had already been applied.
    func older(written: [RegisteredDevice]) -> [IgnoredEvent] {
        var missed = latest
        for device in written {
            missed[ScopedIdentifier(device.appID, device.user)]?[ScopedIdentifier(device.appID, device.device)] = nil
        }
        return missed.values.flatMap { $0.values.map { IgnoredEvent(record: $0.record, reason: .older) } }
    }
}
