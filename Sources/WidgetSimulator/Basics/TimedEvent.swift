package import WidgetEvents
package import WidgetModel

/// An event with its time.
package typealias TimedEvent = (time: Timestamp, event: FreshetEvent)
