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
    let time: Timestamp
    let isOrderedByArrival: Bool
}

/// Folds a batch's steps into one write for each device. Pure, except for the random nonces of sealed tokens.
struct DeviceFold {
    private struct Key: Hashable {
        let user: ScopedIdentifier
        let device: ScopedIdentifier
    }

    private var latest: [Key: (step: DeviceStep, token: DeviceTokenKeys.Sealed?)] = [:]
    private(set) var ignored: [IgnoredEvent] = []
    private(set) var rejected: [RejectedEvent] = []
    /// Keys that seal tokens; nil if tokens cannot be stored.
    private let keys: DeviceTokenKeys?

    init(_ steps: [DeviceStep], sealing keys: DeviceTokenKeys?) {
        self.keys = keys
        for step in steps { add(step) }
    }

    private mutating func add(_ step: DeviceStep) {
        let key = Key(
            user: ScopedIdentifier(step.app.id, step.user), device: ScopedIdentifier(step.app.id, step.device))
        if let earlier = latest[key]?.step, !step.isOrderedByArrival, step.time < earlier.time {
            ignored.append(IgnoredEvent(record: step.record, reason: .older))
            return
        }
        guard case .apns(let address) = step.channel else {
            latest[key] = (step, nil)
            return
        }
        let owner = DeviceTokenKeys.Owner(appID: step.app.id, user: step.user, device: step.device)
        guard let sealed = try? keys?.seal(address.token, for: owner) else {
            rejected.append(
                RejectedEvent(
                    record: step.record, app: step.app.name, code: "noTokenKey",
                    message: "/channel: tokens of devices cannot be stored: ingest has no delivery.tokenKeys",
                    pointer: "/channel"))
            return
        }
        latest[key] = (step, sealed)
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
