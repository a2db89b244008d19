import HTTPTypes
import Hummingbird
import JSON
import WidgetEvents
import WidgetModel
import WidgetStore

/// Routes of the devices that are registered for notifications.
extension RouteDependencies {
    var registrationRoutes: [APIRoute] {
        [
            APIRoute("listDevices", .get, "users/{user}/devices", .own(.widgetsRead), handle: list),
            change(
                "registerDevice", .put, "users/{user}/devices/{device}", .deviceRegistered, members: ["channel"]),
            .change("unregisterDevice", .delete, "users/{user}/devices/{device}", handle: unregister),
        ]
    }

    private func list(_ call: APICall) async throws -> Response {
        let user = try call.path("user")
        // A device must not learn whether another user exists.
        if let own = call.user, !Text.equal(own, user) { throw Problem.notFound }
        let devices = try await store.query(.listRegistrations(app: call.app, user: user))
        return Response(["devices": .array(devices.map(\.json))])
    }

    private func unregister(_ call: APICall) async throws -> Response {
        let (user, device) = (try call.path("user"), try call.path("device"))
        return try await publish(
            FreshetEvent(app: call.app, user: user, .device(.unregistered(device: device))), for: call)
    }
}
