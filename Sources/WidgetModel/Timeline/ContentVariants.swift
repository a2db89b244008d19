package import JSON

/// Content of an entry for light and dark surroundings.
///
/// Content is the app's own. By convention an object whose members are `light`, `dark` or both has variants.
package struct ContentVariants: Hashable, Sendable {
    /// Nil if the content has only a dark variant.
    package let light: JSONValue?
    /// Nil if the content has only a light variant.
    package let dark: JSONValue?
    /// Whether the content names variants; otherwise both are all of the content.
    package let areNamed: Bool

    package init(_ content: JSONValue) {
        guard let object = content.objectValue, !object.isEmpty,
            object.keys.allSatisfy({ $0 == "light" || $0 == "dark" })
        else {
            (light, dark, areNamed) = (content, content, false)
            return
        }
        (light, dark, areNamed) = (object["light"], object["dark"], true)
    }
}
