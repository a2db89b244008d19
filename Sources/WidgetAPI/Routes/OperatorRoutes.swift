import Hummingbird
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Routes for operators: explanations, forecasts, erasing and pausing.
extension RouteDependencies {
    var operatorRoutes: [APIRoute] {
        [
            APIRoute("explainWidget", .get, "widgets/{widget}/explanation", .app(.operateRead), handle: explain),
            APIRoute("getForecast", .get, "forecast", .app(.operateRead), query: ["hours"], handle: forecast),
            APIRoute("getDelivery", .get, "delivery", .app(.operateRead), query: ["days"], handle: delivery),
            APIRoute("eraseUser", .delete, "users/{user}", .app(.operate), handle: erase),
            APIRoute("pauseApp", .put, "pause", .app(.operate)) { try await set(true, $0) },
            APIRoute("resumeApp", .delete, "pause", .app(.operate)) { try await set(false, $0) },
            APIRoute("pauseKind", .put, "kinds/{kind}/pause", .app(.operate)) { try await set(true, $0) },
            APIRoute("resumeKind", .delete, "kinds/{kind}/pause", .app(.operate)) { try await set(false, $0) },
        ]
    }

    private func explain(_ call: APICall) async throws -> Response {
        let widget = try call.path("widget")
        let ignored = try await store.query(.ignoredEvents(app: call.app, widget: widget))
        guard let explanation = try await store.query(.readExplanation(app: call.app, widget: widget)).first else {
            var problem = Problem.notFound
            for event in ignored { problem.detail += "; ignored: \(event.sentence())" }
            throw problem
        }
        let keys = [explanation.widget, explanation.user, explanation.device]
        let refused = try await store.query(.refusedRequests(app: call.app, keys: keys))
        let events = await resources.lookup.events(explanation.timeline?.causes ?? [], of: call.app)
        let registered = try await store.query(
            .listRegistrations(
                app: call.app, user: explanation.user, device: explanation.device, timeline: explanation.timelineID)
        ).first
        return Response(
            explanation.json(events: events, refused: refused, ignored: ignored, registration: registered))
    }

    private func forecast(_ call: APICall) async throws -> Response {
        let hours = try call.integer("hours", in: 1...168, default: 24)
        let rows = try await store.query(.forecastDue(app: call.app, hours: hours))
        return Response(Forecast(rows, hours: hours).json)
    }

    private func delivery(_ call: APICall) async throws -> Response {
        let days = try call.integer("days", in: 1...DeliveryTotals.keptDays, default: 1)
        let kinds = try await store.query(.listKinds(app: call.app)).readable
        let report = try await DeliveryReport(
            of: call.app, kinds: kinds, days: days, objective: resources.objective, from: store)
        return Response(report.json(app: call.app))
    }

    /// Erases a person as `freshet users erase` does; a person without data is erased too.
    private func erase(_ call: APICall) async throws -> Response {
        guard let erasure = try await store.erase(user: try call.path("user"), of: call.app) else {
            throw Problem.notFound
        }
        return Response(erasure.json)
    }

    // MARK: Pausing

    /// Pauses or resumes the app, or the kind of a path with one.
    private func set(_ isPaused: Bool, _ call: APICall) async throws -> Response {
        let kind = call.parameters.get("kind") == nil ? nil : try call.path("kind")
        let outcome =
            isPaused
            ? try await store.pause(app: call.app, kind: kind) : try await store.resume(app: call.app, kind: kind)
        guard let outcome else { throw Problem.notFound }
        return Response(outcome.json(app: call.app, kind: kind))
    }
}
