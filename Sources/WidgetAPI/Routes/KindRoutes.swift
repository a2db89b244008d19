// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import JSON
import PostgresClient
import WidgetModel
import WidgetStore

/// Routes of the app's kinds and their gallery.
extension Routes {
    var kindRoutes: [APIRoute] {
        [
            APIRoute("listKinds", .get, "kinds", .own(.widgetsRead)) { call in
                let kinds = try await kinds(for: call.caller).filter { kind, _ in
                    kind.definition.isEligibleForWidgets || call.caller.seesDefinitions
                }
                return Response(["kinds": .array(kinds.map { json($0.kind, $0.move, for: call.caller) })])
            },
            APIRoute("getKind", .get, "kinds/{kind}", .own(.widgetsRead)) { call in
                let kind = try await kind(try call.path("kind"), for: call.caller)
                return Response(json(kind, try await move(of: kind, for: call.caller), for: call.caller))
            },
            APIRoute("putKind", .put, "kinds/{kind}", .app(.kindsWrite), query: ["dryRun"]) { call in
                let isDryRun = try call.flag("dryRun")
                let definition = try await definition(call)
                let change = try await put(definition, for: call.caller, isDryRun: isDryRun)
                return Response(
                    change.json(definition.notices), change.action == .add && !isDryRun ? .created : .ok)
            },
            APIRoute("deleteKind", .delete, "kinds/{kind}", .app(.kindsWrite)) { call in
                let name = try call.path("kind")
                let retirement = try await retire(name, for: call.caller)
                return Response(
                    [
                        "app": .string(call.app), "kind": .string(name), "changed": .bool(retirement.isChanged),
                        "timelinesLeft": .count(retirement.timelines), "paused": .bool(retirement.isPaused),
                    ], .accepted)
            },
            APIRoute(
                "getPlaceholder", .get, "kinds/{kind}/placeholder", .own(.widgetsRead),
                query: ["family", "locale", "timeZone"]
            ) { call in
                let (name, family) = (try call.path("kind"), try call.family())
                let placeholder = try await placeholder(
                    of: name, family, try WidgetEnvironment(call), for: call.caller)
                return Response(json: placeholder.encoded)
            },
            APIRoute(
                "getSnapshot", .get, "kinds/{kind}/snapshot", .own(.widgetsRead),
                query: ["family", "locale", "timeZone", "configuration", "user"]
            ) { call in
                Response(json: try await snapshot(of: try call.path("kind"), try WidgetPlace(call), for: call.caller))
            },
        ]
    }

    // MARK: Kinds

    /// The kinds that are not retired. Only those who see whole definitions see moves.
    func kinds(for caller: Caller) async throws -> [(kind: RegisteredKind, move: KindMove?)] {
        let kinds = try await store.query(.listKinds(app: caller.app)).readable.filter { !$0.isRetired }
        guard caller.seesDefinitions else { return kinds.map { ($0, nil) } }
        let moves = Dictionary(try await store.query(.listMoves()).map { ($0.kindID, $0) }) { $1 }
        return kinds.map { ($0, moves[$0.id]) }
    }

    /// A kind that is not retired.
    func kind(_ name: String, for caller: Caller) async throws -> RegisteredKind {
        let kinds = try await store.query(.listKinds(app: caller.app))
        guard let found = kinds.first(where: { Text.equal($0.name, name) }), !found.isRetired else {
            throw Problem.notFound
        }
        guard case .readable(let kind) = found else { throw Problem.kindUnreadable }
        return kind
    }

    /// The move of a kind's widgets to other timelines, if one is under way and the caller sees moves.
    func move(of kind: RegisteredKind, for caller: Caller) async throws -> KindMove? {
        guard caller.seesDefinitions else { return nil }
        return try await store.query(.listMoves()).first { $0.kindID == kind.id }
    }

    private func put(_ definition: KindDefinition, for caller: Caller, isDryRun: Bool) async throws -> KindChange {
        guard let change = try await store.put(definition, of: caller.app, isDryRun: isDryRun) else {
            throw Problem.notFound
        }
        if !isDryRun { _ = try? await directory.refresh() }
        return change
    }

    private func retire(_ name: String, for caller: Caller) async throws -> Retirement {
        guard let retirement = try await store.retire(app: caller.app, kind: name) else { throw Problem.notFound }
        _ = try? await directory.refresh()
        return retirement
    }

    /// The kind as the caller sees it.
    private func json(_ kind: RegisteredKind, _ move: KindMove?, for caller: Caller) -> JSONValue {
        guard caller.seesDefinitions, case .object(var object) = kind.json(move: move) else { return kind.galleryJSON }
        if case .object(let gallery) = kind.galleryJSON {
            for member in gallery.members where object[member.key] == nil { object[member.key] = member.value }
        }
        return .object(object)
    }

    /// The definition in a body, if it has no errors and its provider may be called.
    private func definition(_ call: APICall) async throws -> KindDefinition {
        let name = try call.path("kind")
        var body = try await call.body()
        var errors: [Problem.Item] = []
        if let inBody = body["name"], inBody != .string(name) {
            errors.append(
                Problem.Item(
                    detail: "must be the kind of the path, \(Text.quoted(name)), or left out", pointer: "/name"))
        }
        body["name"] = .string(name)
        let (definition, found) = KindDefinition.validate(.object(body))
        errors += found.map { Problem.Item(detail: $0.message, pointer: $0.pointer) }
        if let url = definition.flatMap({ try? ProviderURL($0.providerURL) }),
            let reason = await resources.providerProblem(url)
        {
            errors.append(Problem.Item(detail: reason, pointer: "/providerURL"))
        }
        guard errors.isEmpty, let definition else { throw Problem.unprocessable(errors) }
        return definition
    }

    // MARK: Gallery

    private func placeholder(
        of name: String, _ family: WidgetFamily, _ environment: WidgetEnvironment, for caller: Caller
    ) async throws -> FallbackContent {
        let statement = Statements.readKindPlaceholder(
            app: caller.app, kind: name, family: family, environment: environment)
        guard let placeholder = try await store.query(statement).first else { throw Problem.notFound }
        return placeholder
    }

    /// JSON of the content that a new widget would show: the current entry of an existing timeline, else the fallback
    /// content.
    private func snapshot(of name: String, _ place: WidgetPlace, for caller: Caller) async throws -> [UInt8] {
        let kind = try await kind(name, for: caller)
        if place.user != nil || kind.definition.sharing == .shared {
            let placement = WidgetPlacement(
                app: caller.app, widget: "gallery", user: place.user ?? "", device: "gallery", kind: name,
                family: place.family, configuration: place.configuration ?? .empty, environment: place.environment)
            let id = kind.definition.identity(of: placement).id
            if let timeline = try await store.query(.readTimeline(id: id, app: caller.app)).first {
                return timeline.shown()
            }
        }
        return try await placeholder(of: name, place.family, place.environment, for: caller).encoded
    }
}
