// SPDX-License-Identifier: Apache-2.0

import JSON
import ReloadIngest
import WidgetEvents
import WidgetModel
import WidgetStore

/// Checks the events of one request before they are published: permissions of the bearer, and existence of kinds, so
/// that the caller gets the errors that ingest would find.
extension Routes {
    /// - Parameters:
    ///   - pointer: place of a kind of a reload request in the body; nil for its place among the kinds.
    ///   - latest: the directory, if it was read for this request.
    func check(
        _ event: FreshetEvent, _ caller: Caller, kindAt pointer: ((String) -> String)? = nil,
        _ latest: inout KindDirectory?
    ) async throws {
        switch event.change {
        case .widget(.placed(let placement)):
            if let user = caller.user, !Text.equal(placement.user, user) {
                throw Problem.forbidden("a token of one user places widgets of this user only")
            }
            guard let kind = try await find(placement.kind, of: caller.app, &latest) else {
                throw Problem.unprocessable([Self.unknown(placement.kind, at: "/kind")])
            }
            let resolved = kind.definition.resolve(placement)
            var stored: WidgetConfiguration?
            if !resolved.problems.isEmpty, let (widget, _) = try? await placedWidget(placement.widget, for: caller),
                Text.equal(widget.kind, placement.kind)
            {
                stored = widget.configuration.map { WidgetConfiguration(storedCanonical: $0) }
            }
            try require(noProblems: kind.definition.problems(with: resolved, replacing: stored ?? .empty))
        case .reload(let request):
            if request.reason == .operator {
                guard caller.principal.has(.operate) else { throw Problem.insufficientScope(.operate) }
                guard caller.user == nil else {
                    throw Problem.forbidden("a token of one user cannot request operator reloads")
                }
            }
            try await check(request, caller, kindAt: pointer, &latest)
        case .widget(.configured(let id, let configuration)):
            try await check(configuration, of: id, for: caller)
        case .device(.environment(_, let environment, _)):
            try require(noProblems: environment.problems.map { $0.moved(below: "/environment") })
            guard caller.user == nil else {
                throw Problem.forbidden("a token of one user cannot change a device for all of its users")
            }
        case .person, .interaction, .device:
            if let user = caller.user, !Text.equal(user, event.user) {
                throw Problem.forbidden("a token of one user changes stacks, habits and devices of this user only")
            }
            try await check(event.change, of: caller.app, &latest)
            if case .device(.registered(let device, let channel)) = event.change, let user = event.user {
                try await checkRegistration(of: device, user: user, channel: channel, app: caller.app)
            }
        // Ingest ignores those of another user's widgets.
        case .widget(.removed), .view: break
        }
    }

    /// Checks a configuration by the kind's intent. The placement of an unknown widget may still be in Kafka; ingest
    /// checks the event in that case.
    private func check(_ configuration: WidgetConfiguration, of id: String, for caller: Caller) async throws {
        guard let (widget, definition) = try? await placedWidget(id, for: caller), let definition,
            let family = widget.family
        else { return }
        let stored = widget.configuration.map { WidgetConfiguration(storedCanonical: $0) }
        try require(
            noProblems: definition.problems(with: configuration, replacing: stored ?? .empty, family: family))
    }

    /// Checks the shortcuts or the donation of a person.
    private func check(
        _ change: FreshetEvent.Change, of app: String, _ latest: inout KindDirectory?
    ) async throws {
        var items: [Problem.Item] = []
        switch change {
        case .person(.shortcuts(_, let shortcuts)):
            for (index, shortcut) in shortcuts.enumerated() {
                let (content, pointer) = (shortcut.content, "/shortcuts/\(index)")
                guard let kind = try await find(content.kind, of: app, &latest)?.definition else {
                    items.append(Self.unknown(content.kind, at: "\(pointer)/kind"))
                    continue
                }
                items += kind.problems(withShortcut: content.configuration)
                    .map { Problem.Item(detail: $0.message, pointer: pointer + $0.pointer) }
            }
        case .interaction(let interaction):
            if let kind = try await find(interaction.kind, of: app, &latest)?.definition {
                try require(noProblems: kind.problems(withValues: interaction.configuration))
            } else {
                items.append(Self.unknown(interaction.kind, at: "/kind"))
            }
        default: break
        }
        guard items.isEmpty else { throw Problem.unprocessable(items) }
    }

    private func require(noProblems problems: [ModelError]) throws(Problem) {
        guard problems.isEmpty else {
            throw .unprocessable(problems.map { Problem.Item(detail: $0.message, pointer: $0.pointer) })
        }
    }

    private func checkRegistration(
        of device: String, user: String, channel: DeliveryChannel, app name: String
    ) async throws {
        let registrations = resources.ingest.registrations
        if case .apns(let address) = channel,
            let problem = registrations.problem(ofTopic: address.topic, app: name)
        {
            throw Problem.unprocessable("/channel/apns/topic", detail: problem)
        }
        guard let app = try await directory.directory(maximumAge: .seconds(5)).apps[name] else { return }
        let devices = try await store.query(.registeredDevices(of: [(app.id, user)])).map(\.device)
        guard devices.contains(where: { Text.equal($0, device) }) || devices.count < registrations.devicesPerUser
        else { throw Problem.unprocessable("/device", detail: registrations.tooManyDevices) }
    }

    private func check(
        _ request: ReloadRequest, _ caller: Caller, kindAt pointer: ((String) -> String)?,
        _ latest: inout KindDirectory?
    ) async throws {
        if let user = caller.user {
            guard case .user(let asked) = request.audience, Text.equal(asked, user) else {
                throw Problem.forbidden("a token of one user requests reloads of this user only: audience {\"user\"}")
            }
        }
        guard case .kinds(let names) = request.kinds else { return }
        let directory = try await directory(with: names, of: caller.app, &latest)
        let unknown = names.enumerated().filter { !Self.isKnown($1, of: caller.app, in: directory) }
            .map { Self.unknown($1, at: pointer?($1) ?? "/kinds/\($0)") }
        guard unknown.isEmpty else { throw Problem.unprocessable(unknown) }
    }

    // MARK: Kinds

    /// The kind, for an event that needs its definition; nil if the app has none of this name.
    private func find(
        _ name: String, of app: String, _ latest: inout KindDirectory?
    ) async throws -> RegisteredKind? {
        let directory = try await directory(with: [name], of: app, &latest)
        if let kind = Self.find(name, of: app, in: directory) { return kind }
        if Self.isKnown(name, of: app, in: directory) { throw Problem.kindUnreadable }
        return nil
    }

    /// Whether the app has a kind of this name, even if its definition cannot be read. A reload needs no definition.
    private static func isKnown(_ name: String, of app: String, in directory: KindDirectory) -> Bool {
        find(name, of: app, in: directory) != nil
            || directory.apps[app].flatMap { directory.unreadableKind(name, of: $0) } != nil
    }

    private static func unknown(_ name: String, at pointer: String) -> Problem.Item {
        Problem.Item(detail: "the app has no kind \(Text.quoted(name))", pointer: pointer)
    }

    private func directory(
        with names: [String], of app: String, _ latest: inout KindDirectory?
    ) async throws -> KindDirectory {
        if let latest { return latest }
        let known = try await directory.directory(maximumAge: .seconds(5))
        if names.allSatisfy({ Self.isKnown($0, of: app, in: known) }) { return known }
        // A kind may just have been registered.
        let unknown = names.filter { Self.find($0, of: app, in: known) == nil }.map {
            DirectoryName(app: app, kind: $0)
        }
        let read = try await directory.refresh(ifRegistered: unknown) ?? known
        latest = read
        return read
    }

    static func find(_ name: String, of app: String, in directory: KindDirectory) -> RegisteredKind? {
        guard let app = directory.apps[app], let kind = directory.kind(name, of: app),
            Text.equal(kind.definition.name, name)
        else { return nil }
        return kind
    }
}
