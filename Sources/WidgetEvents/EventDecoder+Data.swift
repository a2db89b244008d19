internal import WidgetModel

extension EventDecoder {
    /// Reads the data of an event of a known type, by the same rules as that of a message.
    ///
    /// - Throws: with a pointer into the data.
    package func decode(data bytes: [UInt8], of type: EventType) throws(EventError) -> FreshetEvent {
        guard bytes.count <= maximumEventBytes else {
            throw EventError(
                code: .tooLarge, message: "\(bytes.count) bytes, at most \(maximumEventBytes) are allowed")
        }
        var reader = JSONReader(bytes)
        do throws(JSONError) {
            let event = try reader.event(of: type)
            try reader.finish()
            return event
        } catch {
            throw EventError(error)
        }
    }

    /// All errors of data that ``decode(data:of:)`` refuses.
    package func problems(data bytes: [UInt8], of type: EventType) -> [EventError] {
        var reader = JSONReader(bytes)
        return reader.problems(of: type).map { EventError($0) }
    }
}
