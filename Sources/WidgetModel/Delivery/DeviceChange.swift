// SPDX-License-Identifier: Apache-2.0

import JSON

/// A change of a device of an app's users, as the device reports it.
package enum DeviceChange: Hashable, Sendable {
    /// The language or time zone of the device.
    ///
    /// `isSignificant`: midnight passed, or the clock or the time zone was set.
    case environment(device: String, WidgetEnvironment, isSignificant: Bool)
    /// Registers a channel for changes of the user's widgets on the device.
    case registered(device: String, DeliveryChannel)
    case unregistered(device: String)

    package var device: String {
        switch self {
        case .environment(let device, _, _), .registered(let device, _), .unregistered(let device): device
        }
    }
}

/// Limits of registrations that the operator sets.
package struct RegistrationRules: Hashable, Sendable {
    /// Bundle ids of apps besides their names, by app.
    package var bundleIDs: [String: Set<String>] = [:]
    /// Most devices of a user of an app at once.
    package var devicesPerUser = 50

    package init() {}

    /// Reason why an app's devices cannot have a topic, or nil. A user's token must not choose which of the team's
    /// other apps is pushed to.
    package func problem(ofTopic topic: String, app: String) -> String? {
        let bundles = Set([app]).union(bundleIDs[app] ?? [])
        guard !bundles.contains(where: { Text.equal($0 + APNsAddress.topicSuffix, topic) }) else { return nil }
        return "the topic \(Text.quoted(topic)) is not the app's, nor of a bundle id of delivery.bundleIDs"
    }

    /// Reason why no further device of a user can be registered.
    package var tooManyDevices: String {
        "the user has as many devices as delivery.devicesPerUser allows: \(devicesPerUser)"
    }
}

/// Channel of the notifications that a device's widgets have changed.
package enum DeliveryChannel: Hashable, Sendable {
    /// Apple's push notification service.
    case apns(APNsAddress)
    /// A webhook of the app's backend, which notifies the device by its own means.
    case webhook
}

/// Address of an app on a device at Apple's push notification service.
package struct APNsAddress: Hashable, Sendable, CustomStringConvertible {
    /// Servers of Apple's service. A token is valid at one of them.
    package enum Environment: String, CaseIterable, Sendable {
        case production, sandbox

        package var other: Environment { self == .production ? .sandbox : .production }
    }

    /// Longest token, in bytes. Apple's tokens have no fixed size.
    package static let maximumTokenBytes = 128
    /// Suffix of the topics of widget pushes (rules, G).
    package static let topicSuffix = ".push-type.widgets"

    /// A secret: with the app's key it is enough to push to the device.
    package let token: [UInt8]
    package let environment: Environment
    /// The app's bundle id with ``topicSuffix``.
    package let topic: String

    package init(token: [UInt8], environment: Environment, topic: String) {
        self.token = token
        self.environment = environment
        self.topic = topic
    }

    /// Reason why a text is not a topic of widget pushes, or nil.
    package static func problem(ofTopic text: String) -> String? {
        let isName = text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-.".utf8.contains($0) }
        guard isName, text.hasSuffix(topicSuffix), text.utf8.count > topicSuffix.utf8.count, text.utf8.count <= 255
        else { return "expected the app's bundle id followed by \(topicSuffix), found \(Text.quoted(text))" }
        return nil
    }

    /// Without the token.
    package var description: String { "\(topic) (\(environment.rawValue))" }
}
