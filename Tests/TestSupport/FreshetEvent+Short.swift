// SPDX-License-Identifier: Apache-2.0

package import WidgetEvents
package import WidgetModel

/// Events in short, for tests.
extension FreshetEvent {
    package static func reload(_ request: ReloadRequest) -> FreshetEvent { FreshetEvent(request) }

    package static func placed(_ placement: WidgetPlacement) -> FreshetEvent { FreshetEvent(placement) }

    package static func configured(
        app: String, widget: String, configuration: WidgetConfiguration
    ) -> FreshetEvent {
        FreshetEvent(app: app, .widget(.configured(widget: widget, configuration)))
    }

    package static func removed(app: String, widget: String) -> FreshetEvent {
        FreshetEvent(app: app, .widget(.removed(widget: widget)))
    }

    package static func viewed(app: String, widget: String) -> FreshetEvent {
        FreshetEvent(app: app, .view(widget: widget))
    }

    package static func environmentChanged(
        app: String, device: String, environment: WidgetEnvironment, significantTimeChange: Bool
    ) -> FreshetEvent {
        FreshetEvent(
            app: app, .device(.environment(device: device, environment, isSignificant: significantTimeChange)))
    }

    package static func deviceRegistered(
        app: String, user: String, device: String, channel: DeliveryChannel
    ) -> FreshetEvent {
        FreshetEvent(app: app, user: user, .device(.registered(device: device, channel)))
    }

    package static func deviceUnregistered(app: String, user: String, device: String) -> FreshetEvent {
        FreshetEvent(app: app, user: user, .device(.unregistered(device: device)))
    }

    package static func stackChanged(app: String, user: String, _ stack: StackArrangement) -> FreshetEvent {
        FreshetEvent(app: app, user: user, .person(.stack(stack)))
    }

    package static func stackTurned(
        app: String, user: String, device: String, stack: String, widget: String
    ) -> FreshetEvent {
        FreshetEvent(app: app, user: user, .person(.turned(device: device, stack: stack, widget: widget)))
    }

    package static func shortcutsReplaced(
        app: String, user: String, device: String?, _ shortcuts: [RelevantShortcut]
    ) -> FreshetEvent {
        FreshetEvent(app: app, user: user, .person(.shortcuts(device: device, shortcuts)))
    }

    package static func interactionDonated(
        app: String, user: String, _ interaction: DonatedInteraction
    ) -> FreshetEvent {
        FreshetEvent(app: app, user: user, .interaction(interaction))
    }
}
