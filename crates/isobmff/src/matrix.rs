//! The transformation matrix of `tkhd` and `mvhd` (ISO/IEC 14496-12 §6.2.2).

use crate::{Error, cursor::Cursor};
use bytes::BufMut;

/// A matrix {a, b, u, c, d, v, x, y, w}, by which a picture is shown. u, v and w are 2.30 fixed
/// point, the others 16.16. A point (p, q) is shown at (a·p + c·q + x, b·p + d·q + y).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix(pub [i32; 9]);

const ONE: i32 = 0x1_0000;

impl Matrix {
    /// The matrix that changes nothing.
    pub const UNITY: Self = Self([ONE, 0, 0, 0, ONE, 0, 0, 0, 0x4000_0000]);

    /// Reads a matrix. One that maps the picture to a line or a point is an error of the writer,
    /// such as nine zeros, and is read as [`Self::UNITY`].
    pub(crate) fn parse(payload: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut numbers = [0; 9];
        for number in &mut numbers {
            *number = payload.i32()?;
        }
        let [a, b, _, c, d, ..] = numbers.map(i64::from);
        Ok(if a * d == b * c { Self::UNITY } else { Self(numbers) })
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|&number| out.put_i32(number));
    }

    /// Returns the matrix that applies this one, and then another.
    #[must_use]
    pub fn then(&self, other: &Self) -> Self {
        if *other == Self::UNITY {
            return *self;
        }
        // The columns of the left matrix and the rows of the right one have these fraction bits.
        const SHIFTS: [u32; 3] = [16, 16, 30];
        let product = |row: usize, column: usize| -> i64 {
            let term =
                |k: usize| (i64::from(self.0[row * 3 + k]) * i64::from(other.0[k * 3 + column])) >> SHIFTS[k];
            (0..3).map(term).sum()
        };
        let number = |n: usize| i32::try_from(product(n / 3, n % 3)).unwrap_or(0);
        Self(std::array::from_fn(number))
    }

    /// Returns true if the picture is neither turned nor mirrored. It may be scaled and moved.
    pub fn is_upright(&self) -> bool {
        let [a, b, _, c, d, ..] = self.0;
        a > 0 && d > 0 && b == 0 && c == 0
    }

    /// Returns true if rows of the picture are shown as columns: it is turned by 90° or 270°, and
    /// may be mirrored.
    pub fn is_on_its_side(&self) -> bool {
        let [a, _, _, _, d, ..] = self.0;
        a == 0 && d == 0
    }

    /// Returns the clockwise turn in degrees, if it is a multiple of 90° without mirroring.
    pub fn quarter_turns(&self) -> Option<u16> {
        let [a, b, _, c, d, ..] = self.0.map(i32::signum);
        match [a, b, c, d] {
            [1, 0, 0, 1] => Some(0),
            [0, 1, -1, 0] => Some(90),
            [-1, 0, 0, -1] => Some(180),
            [0, -1, 1, 0] => Some(270),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Matrix, ONE};
    use crate::cursor::Cursor;
    use bytes::Bytes;

    const TURNED: Matrix = Matrix([0, ONE, 0, -ONE, 0, 0, 1080 << 16, 0, 0x4000_0000]);

    fn read_back(matrix: &Matrix) -> Matrix {
        let mut bytes = Vec::new();
        matrix.put(&mut bytes);
        Matrix::parse(&mut Cursor::new(&Bytes::from(bytes), 0)).unwrap()
    }

    #[test]
    fn a_matrix_without_an_area_is_read_as_unity() {
        assert_eq!(read_back(&TURNED), TURNED);
        assert_eq!(read_back(&Matrix([0; 9])), Matrix::UNITY);
        assert_eq!(read_back(&Matrix([ONE, ONE, 0, ONE, ONE, 0, 0, 0, 0])), Matrix::UNITY);
    }

    #[test]
    fn turns_add_up() {
        assert_eq!((Matrix::UNITY.quarter_turns(), Matrix::UNITY.is_upright()), (Some(0), true));
        let twice = TURNED.then(&TURNED);
        assert_eq!((TURNED.quarter_turns(), twice.quarter_turns()), (Some(90), Some(180)));
        assert_eq!(twice.then(&TURNED).quarter_turns(), Some(270));
        assert_eq!(TURNED.then(&Matrix::UNITY), TURNED);
        assert_eq!(Matrix::UNITY.then(&TURNED), TURNED);
        let mirrored = Matrix([-ONE, 0, 0, 0, ONE, 0, 0, 0, 0x4000_0000]);
        assert_eq!((mirrored.quarter_turns(), mirrored.is_upright()), (None, false));
        assert!(TURNED.is_on_its_side() && TURNED.then(&mirrored).is_on_its_side());
        assert!(!twice.is_on_its_side() && !mirrored.is_on_its_side() && !Matrix::UNITY.is_on_its_side());
    }
}
