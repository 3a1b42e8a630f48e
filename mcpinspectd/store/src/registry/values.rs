//! How the registry's types are stored in columns.
//!
//! The types belong to crates that know no database, so a column is a type of its own around them.

use mcpinspect_core::model::{DefinitionHash, Timestamp};
use mcpinspect_judge::registry::{DecidedBy, Owner, StorageError};
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// What went wrong in the database, for the registry.
pub(super) fn failed(error: rusqlite::Error) -> StorageError {
    StorageError(error.to_string())
}

/// A value as a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<T>(pub(super) T);

/// A type that has a column's form.
pub(super) trait Stored: Sized {
    fn to_column(&self) -> ToSqlOutput<'_>;
    fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self>;
}

impl<T: Stored> ToSql for Column<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.to_column())
    }
}

impl<T: Stored> FromSql for Column<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        T::from_column(value).map(Self)
    }
}

/// Reads columns that hold such values.
pub(super) trait StoredColumns {
    /// The value in a column.
    fn stored<T: Stored>(&self, at: usize) -> rusqlite::Result<T>;
    /// The value in a column that may be empty.
    fn stored_or_null<T: Stored>(&self, at: usize) -> rusqlite::Result<Option<T>>;
}

impl StoredColumns for Row<'_> {
    fn stored<T: Stored>(&self, at: usize) -> rusqlite::Result<T> {
        self.get::<_, Column<T>>(at).map(|column| column.0)
    }

    fn stored_or_null<T: Stored>(&self, at: usize) -> rusqlite::Result<Option<T>> {
        let column = self.get::<_, Option<Column<T>>>(at)?;
        Ok(column.map(|column| column.0))
    }
}

impl Stored for DefinitionHash {
    fn to_column(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Borrowed(ValueRef::Blob(&self.0))
    }

    fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_blob()?;
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| FromSqlError::InvalidBlobSize {
                expected_size: 32,
                blob_size: bytes.len(),
            })
    }
}

/// Stand in for a user id in decisions of a policy, and of a list.
const POLICY: i64 = -1;
const LIST: i64 = -2;

impl Stored for DecidedBy {
    fn to_column(&self) -> ToSqlOutput<'_> {
        match self {
            Self::Person(uid) => i64::from(*uid),
            Self::Policy => POLICY,
            Self::List => LIST,
        }
        .into()
    }

    fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            POLICY => Ok(Self::Policy),
            LIST => Ok(Self::List),
            uid => u32::try_from(uid)
                .map(Self::Person)
                .map_err(|_| FromSqlError::OutOfRange(uid)),
        }
    }
}

/// Stand in for a user id for owners who are not users.
const SHARED: i64 = -1;
const UNKNOWN: i64 = -2;
const EARLIER: i64 = -3;

impl Stored for Owner {
    fn to_column(&self) -> ToSqlOutput<'_> {
        match self {
            Self::User(uid) => i64::from(*uid),
            Self::Shared => SHARED,
            Self::Unknown => UNKNOWN,
            Self::Earlier => EARLIER,
        }
        .into()
    }

    fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            SHARED => Ok(Self::Shared),
            UNKNOWN => Ok(Self::Unknown),
            EARLIER => Ok(Self::Earlier),
            uid => u32::try_from(uid)
                .map(Self::User)
                .map_err(|_| FromSqlError::OutOfRange(uid)),
        }
    }
}

impl Stored for Timestamp {
    fn to_column(&self) -> ToSqlOutput<'_> {
        // Sufficient until the year 2262.
        i64::try_from(self.0).unwrap_or(i64::MAX).into()
    }

    fn from_column(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value
            .as_i64()
            .map(|nanoseconds| Self(u64::try_from(nanoseconds).unwrap_or(0)))
    }
}
