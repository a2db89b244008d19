package import JSON
import WidgetModel
package import WidgetStore

extension ExplainedStack {
    /// The plan, and why each widget is or is not on top now.
    package var json: JSONValue { ["plan": plan.json, "now": explanation.json] }
}
