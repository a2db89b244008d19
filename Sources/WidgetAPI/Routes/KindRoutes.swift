import Hummingbird
import JSON
import PostgresClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Routes of the app's kinds and their gallery.
extension RouteDependencies {
    var kindRoutes: [APIRoute] {
        [
            APIRoute("listKinds", .get, "kinds", .own(.widgetsRead), handle: list),
            APIRoute("getKind", .get, "kinds/{kind}", .own(.widgetsRead), handle: get),
            APIRoute("putKind", .put, "kinds/{kind}", .app(.kindsWrite), query: ["dryRun"], handle: put),
            APIRoute("deleteKind", .delete, "kinds/{kind}", .app(.kindsWrite), handle: delete),
            APIRoute(
                "getPlaceholder", .get, "kinds/{kind}/placeholder", .own(.widgetsRead),
                query: ["family", "locale", "timeZone"], handle: placeholder),
            APIRoute(
                "getSnapshot", .get, "kinds/{kind}/snapshot", .own(.widgetsRead),
                query: ["family", "locale", "timeZone", "configuration", "user"], handle: snapshot),
        ]
    }

    private func list(_ call: APICall) async throws -> Response {
        let kinds = try await store.query(.listKinds(app: call.app)).readable.filter { !$0.isRetired }
        let moves = try await moves(call)
        return Response(["kinds": .array(kinds.map { json($0, moves, call) })])
    }

    private func get(_ call: APICall) async throws -> Response {
        Response(json(try await kind(of: call), try await moves(call), call))
    }

    /// Whether the bearer sees the whole definition; others see the gallery's part.
    private func seesAll(_ call: APICall) -> Bool {
        call.user == nil && (call.principal.has(.kindsWrite) || call.principal.has(.operateRead))
    }

    private func json(_ kind: RegisteredKind, _ moves: [Int32: KindMove], _ call: APICall) -> JSONValue {
        guard seesAll(call), case .object(var object) = kind.json(move: moves[kind.id]) else { return kind.galleryJSON }
        if case .object(let gallery) = kind.galleryJSON {
            for member in gallery.members where object[member.key] == nil { object[member.key] = member.value }
        }
        return .object(object)
    }

    private func moves(_ call: APICall) async throws -> [Int32: KindMove] {
        guard seesAll(call) else { return [:] }
        return Dictionary(try await store.query(.listMoves()).map { ($0.kindID, $0) }) { $1 }
    }

    private func put(_ call: APICall) async throws -> Response {
        let isDryRun = try call.flag("dryRun")
        let name = try call.path("kind")
        var body = try await call.body()
        var errors: [Problem.Item] = []
        if let inBody = body["name"], inBody != .string(name) {
            errors.append(
                Problem.Item(
                    detail: "must be the kind of the path, \(Text.quoted(name)), or left out", pointer: "/name"))
        }
        body["name"] = .string(name)
        let definition = try await check(body, errors)
        guard let change = try await store.put(definition, of: call.app, isDryRun: isDryRun) else {
            throw Problem.notFound
        }
        if !isDryRun { _ = try? await directory.refresh() }
        return Response(change.json, change.action == .add && !isDryRun ? .created : .ok)
    }

    /// The definition, if it has no errors and its provider may be called.
    private func check(_ body: JSONObject, _ errors: [Problem.Item]) async throws(Problem) -> KindDefinition {
        switch KindDefinition.validate(.object(body)) {
        case .failure(let found):
            throw .unprocessable(errors + found.errors.map { Problem.Item(detail: $0.message, pointer: $0.pointer) })
        case .success(let definition):
            var errors = errors
            if let url = try? ProviderURL(definition.providerURL),
                let reason = await resources.providerProblem(url)
            {
                errors.append(Problem.Item(detail: reason, pointer: "/providerURL"))
            }
            guard errors.isEmpty else { throw .unprocessable(errors) }
            return definition
        }
    }

    private func delete(_ call: APICall) async throws -> Response {
        let name = try call.path("kind")
        guard let retirement = try await store.retire(app: call.app, kind: name) else { throw Problem.notFound }
        _ = try? await directory.refresh()
        return Response(
            [
                "app": .string(call.app), "kind": .string(name), "changed": .bool(retirement.isChanged),
                "timelinesLeft": .count(retirement.timelines), "paused": .bool(retirement.isPaused),
            ], .accepted)
    }

    // MARK: Gallery

    private func placeholder(_ call: APICall) async throws -> Response {
        let name = try call.path("kind")
        let family = try call.family()
        let environment = try WidgetEnvironment(call)
        let statement = Statements.readKindPlaceholder(
            app: call.app, kind: name, family: family, environment: environment)
        guard let placeholder = try await store.query(statement).first else { throw Problem.notFound }
        return Response(json: placeholder.encoded)
    }

    /// Content that a new widget would show: the current entry of an existing timeline, else the fallback content.
    private func snapshot(_ call: APICall) async throws -> Response {
        let name = try call.path("kind")
        let place = try WidgetPlace(call)
        let kind = try await kind(of: call)
        if place.user != nil || kind.definition.sharing == .shared {
            let placement = WidgetPlacement(
                app: call.app, widget: "gallery", user: place.user ?? "", device: "gallery", kind: name,
                family: place.family, configuration: place.configuration ?? .empty, environment: place.environment)
            let id = kind.definition.identity(of: placement).id
            if let timeline = try await store.query(.readTimeline(id: id, app: call.app)).first {
                return Response(json: timeline.shown())
            }
        }
        return try await placeholder(call)
    }
}
