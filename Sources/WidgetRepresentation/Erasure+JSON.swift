package import WidgetModel
package import WidgetStore

extension Erasure {
    package var json: JSONValue {
        [
            "widgets": .number(JSONNumber(widgets)), "timelines": .number(JSONNumber(timelines)),
            "deadLetters": .number(JSONNumber(deadLetters)),
        ]
    }
}
