package import PostgresClient
import WidgetModel

/// Revision of this process's last message for a timeline; 0 for none or a tombstone.
package typealias PublishedRevision = (row: Int64, revision: Int64)

/// A row by its primary key, with the timeline (nil if the row is gone) and the content to publish.
package typealias PublishedDifference = (row: Int64, timeline: ClaimedTimeline?, content: [UInt8]?)

private let input = InputColumns<PublishedRevision>([
    .init("id") { $0.row }, .init("published") { $0.revision },
])

private let comparePublishedSQL = """
    SELECT i.id AS compared, \(ClaimedTimeline.columns()), t.content
    FROM \(input.rows("i"))
    LEFT JOIN timeline t ON t.id = i.id LEFT JOIN kind k ON k.id = t.kind_id
    WHERE t.id IS NULL OR t.orphaned OR t.content_revision <> i.published AND t.content_revision > 0
    """

extension PostgresStatement where Self == Statements {
    /// Rows whose stored content differs from this process's last message, in a snapshot after the acknowledgement, and
    /// rows that are gone or orphaned: content between a tombstone and the deletion must not be the last message.
    package static func comparePublished(_ published: [PublishedRevision]) -> PostgresQuery<PublishedDifference> {
        PostgresQuery(comparePublishedSQL, binding: input.parameters(published)) { row in
            let isGone = try row.optional("row", as: Int64.self) == nil
            return try PublishedDifference(
                row: row.value("compared"), timeline: isGone ? nil : ClaimedTimeline(row),
                content: row.optional("content", as: PostgresTextBytes.self)?.bytes)
        }
    }
}
