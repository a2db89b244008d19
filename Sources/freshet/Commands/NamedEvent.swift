// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import WidgetEvents
import WidgetModel

/// Name of an event on the command line: the words before its ids.
enum NamedEvent: String, CaseIterable {
    case push
    case appChange = "app-change"
    case widgetPlaced = "widget placed"
    case widgetConfigured = "widget configured"
    case widgetRemoved = "widget removed"
    case widgetViewed = "widget viewed"
    case widgetEnvironment = "widget environment"
    case stackChanged = "stack changed"
    case stackTurned = "stack turned"
    case shortcutsReplaced = "shortcuts replaced"
    case interactionDonated = "interaction donated"
    case deviceRegistered = "device registered"
    case deviceUnregistered = "device unregistered"

    /// Finds the name that words begin with, and the ids behind it.
    static func find(in words: [String]) throws(ValidationError) -> (name: NamedEvent, ids: [String]) {
        for name in allCases {
            let parts = name.rawValue.split(separator: " ").map(String.init)
            if words.starts(with: parts) { return (name, Array(words.dropFirst(parts.count))) }
        }
        let names = allCases.map(\.rawValue)
        let hint = words.prefix(2).joined(separator: " ").hint(among: names)
        throw ValidationError("expected \(names.joined(separator: ", ")), or --stdin\(hint)")
    }

    /// How many ids it has.
    fileprivate var ids: ClosedRange<Int> {
        switch self {
        case .push, .appChange, .shortcutsReplaced, .interactionDonated: 0...0
        case .stackTurned: 2...2
        case .stackChanged: 1...(1 + StackArrangement.maximumWidgets)
        default: 1...1
        }
    }
}

extension PublishCommand {
    /// The event that the arguments describe, with its partition key unless that follows from the event.
    func event() throws -> (FreshetEvent, key: String?) {
        let (name, ids) = try NamedEvent.find(in: words)
        guard ids.count >= name.ids.lowerBound else {
            throw ValidationError(name.ids.lowerBound == 1 ? "expected the id" : "expected the stack and its widget")
        }
        guard ids.count <= name.ids.upperBound else {
            throw ValidationError("unexpected \(ids[name.ids.upperBound...].joined(separator: " "))")
        }
        for id in ids { _ = try OptionText.identifier(id) }
        let app = try required(app, "--app")
        switch name {
        case .push: return (FreshetEvent(try scope.request(app: app, reason: .push)), nil)
        case .appChange:
            let reason: ReloadReason = try required(state, "--state") == .foreground ? .foreground : .background
            return (FreshetEvent(try scope.request(app: app, reason: reason)), nil)
        case .widgetPlaced, .widgetConfigured, .widgetRemoved, .widgetViewed, .widgetEnvironment:
            return (try widgetEvent(name, ids[0], of: app), try user())
        default: return (try event(name.type, try data(of: name, ids, of: app)), nil)
        }
    }

    private func required<Value>(_ value: Value?, _ name: String) throws -> Value {
        guard let value else { throw ValidationError("expected \(name)") }
        return value
    }

    private func user() throws -> String { try required(scope.user, "--user") }
    private func device() throws -> String { try required(scope.device, "--device") }
    private func kind() throws -> String { try required(scope.kinds.first, "--kind") }

    private func widgetEvent(_ name: NamedEvent, _ id: String, of app: String) throws -> FreshetEvent {
        switch name {
        case .widgetPlaced:
            return FreshetEvent(
                WidgetPlacement(
                    app: app, widget: id, user: try user(), device: try device(), kind: try kind(), family: family,
                    configuration: configuration ?? .empty, environment: try environment.model()))
        case .widgetConfigured:
            let configuration = try required(configuration, "--configuration")
            return FreshetEvent(app: app, .widget(.configured(widget: id, configuration)))
        case .widgetRemoved: return FreshetEvent(app: app, .widget(.removed(widget: id)))
        case .widgetViewed: return FreshetEvent(app: app, .view(widget: id))
        default:
            let change = DeviceChange.environment(
                device: id, try environment.model(), isSignificant: significantTimeChange)
            return FreshetEvent(app: app, .device(change))
        }
    }

    private func data(of name: NamedEvent, _ ids: [String], of app: String) throws -> JSONObject {
        var members: JSONObject = ["app": .string(app), "user": .string(try user())]
        switch name {
        case .stackChanged:
            members["device"] = .string(try device())
            members["stack"] = .string(ids[0])
            members["widgets"] = .texts(Array(ids.dropFirst()))
            members["smartRotate"] = .bool(smartRotate)
            members["suggestions"] = .bool(suggestions)
        case .stackTurned:
            members["device"] = .string(try device())
            members["stack"] = .string(ids[0])
            members["widget"] = .string(ids[1])
        case .shortcutsReplaced:
            members["device"] = scope.device.map { .string($0) }
            members["shortcuts"] = try required(shortcuts, "--shortcuts")
        case .interactionDonated:
            members["kind"] = .string(try kind())
            members["configuration"] = configuration?.value
            members["device"] = scope.device.map { .string($0) }
            members["timeZone"] = environment.timeZone.map { .string($0) }
        default:
            members["device"] = .string(ids[0])
            if name == .deviceRegistered { members["channel"] = try required(channel, "--channel") }
        }
        return members
    }

    /// An event of its data, which is checked as ingest checks it.
    private func event(_ type: EventType, _ data: JSONObject) throws -> FreshetEvent {
        do throws(EventError) {
            return try EventDecoder(maximumEventBytes: 1 << 20).decode(data: JSONValue.object(data).encoded, of: type)
        } catch {
            throw ValidationError("\(ModelError(error))")
        }
    }
}

extension NamedEvent {
    fileprivate var type: EventType {
        switch self {
        case .push: .pushReceived
        case .appChange: .appChanged
        case .widgetPlaced: .widgetPlaced
        case .widgetConfigured: .widgetConfigured
        case .widgetRemoved: .widgetRemoved
        case .widgetViewed: .widgetViewed
        case .widgetEnvironment: .deviceEnvironmentChanged
        case .stackChanged: .stackChanged
        case .stackTurned: .stackTurned
        case .shortcutsReplaced: .shortcutsReplaced
        case .interactionDonated: .interactionDonated
        case .deviceRegistered: .deviceRegistered
        case .deviceUnregistered: .deviceUnregistered
        }
    }
}
